"""What is generated from the catalogue is current, and the catalogue is sound."""

import json
from itertools import combinations
from pathlib import Path

from jsonschema import Draft202012Validator

from pallas_contracts.catalog import BLOBS, BUCKETS, CONTRACTS, QUESTIONS, STREAMS
from pallas_contracts.generate import SCHEMAS, main, stale

ROOT = Path(__file__).parents[2]


def test_generated_documents_and_schemas_are_current() -> None:
    assert stale(ROOT) == [], "run: uv run python -m pallas_contracts.generate"


def test_missing_changed_and_left_over_files_are_found_and_corrected(tmp_path: Path) -> None:
    assert main([str(tmp_path)]) == 0
    (tmp_path / SCHEMAS / "TurnClaim.json").unlink()
    (tmp_path / SCHEMAS / "TurnOutcome.json").write_text("{}", "utf-8")
    (tmp_path / SCHEMAS / "Gone.json").write_text("{}", "utf-8")
    assert [path.stem for path in stale(tmp_path)] == ["Gone", "TurnClaim", "TurnOutcome"]
    assert main(["--check", str(tmp_path)]) == 1
    assert main([str(tmp_path)]) == 0
    assert stale(tmp_path) == []


def test_every_generated_schema_is_valid_json_schema() -> None:
    for path in (ROOT / SCHEMAS).glob("*.json"):
        Draft202012Validator.check_schema(json.loads(path.read_text("utf-8")))


def test_names_in_the_catalogue_are_unique() -> None:
    for names in (
        [stream.name for stream in STREAMS],
        [bucket.name for bucket in BUCKETS],
        [entry.name for entry in (*CONTRACTS, *BLOBS, *QUESTIONS)],
    ):
        assert len(set(names)) == len(names)


def test_a_contract_is_stored_by_its_own_stream_and_no_other() -> None:
    for contract in (*CONTRACTS, *BLOBS):
        example = contract.template.subject(**dict.fromkeys(contract.template.fields, "x"))
        stores = [stream for stream in STREAMS if any(_matches(pattern, example) for pattern in stream.subjects)]
        assert stores == ([contract.stream] if contract.stream else []), contract.name


def test_no_two_streams_store_the_same_subject() -> None:
    patterns = [pattern for stream in STREAMS for pattern in stream.subjects]
    assert [pair for pair in combinations(patterns, 2) if _matches(*pair) or _matches(*reversed(pair))] == []


def test_blobs_are_not_republished_and_not_under_turn_subjects() -> None:
    assert [blob.name for blob in BLOBS if blob.stream.live or blob.template.text.startswith("pallas.v1.turn.")] == []


def test_no_stream_stores_a_question() -> None:
    for question in QUESTIONS:
        example = question.template.subject(**dict.fromkeys(question.template.fields, "x"))
        assert not any(_matches(pattern, example) for stream in STREAMS for pattern in stream.subjects)


def test_ids_in_a_subject_are_fields_of_the_message() -> None:
    for contract in CONTRACTS:
        fields = set(contract.message.model_fields) | {"turn", "caller"}
        assert set(contract.template.fields) <= fields, contract.name


def _matches(pattern: str, subject: str) -> bool:
    """Whether a subject filter covers a subject (or another filter, read as a subject)."""
    wanted, given = pattern.split("."), subject.split(".")
    return len(wanted) == len(given) and all(w in ("*", g) for w, g in zip(wanted, given, strict=True))
