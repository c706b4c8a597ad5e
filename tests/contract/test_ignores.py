"""How often checks are suppressed. The numbers may only fall: lower them in `ignores.json` when they do."""

import json
import re
from pathlib import Path

from tests.contract.tree import ROOT, source_files

RECORDED = Path(__file__).parent / "ignores.json"

PATTERNS = {
    "type: ignore": re.compile(r"#\s*type:\s*ignore"),
    "pyright: ignore": re.compile(r"#\s*pyright:\s*ignore"),
    "pyright: basic": re.compile(r"#\s*pyright:\s*(basic|standard|report\w+\s*=)"),
    "noqa": re.compile(r"#\s*(ruff:\s*)?noqa"),
    "cast": re.compile(r"(?<![\w.])cast\("),
    "pragma: no cover": re.compile(r"pragma:\s*no cover"),
}
"""What is counted. The names of the patterns are the keys of the file."""

FOLDERS = {"source": ("shared", "services", "clients", "cli", "demo"), "tests": ("tests",)}


def counted() -> dict[str, dict[str, int]]:
    """How often each pattern occurs now, in the sources and in the tests."""
    return {
        part: {name: sum(len(pattern.findall(text)) for text in _texts(folders)) for name, pattern in PATTERNS.items()}
        for part, folders in FOLDERS.items()
    }


def _texts(folders: tuple[str, ...]) -> list[str]:
    return [path.read_text("utf-8") for path in source_files(*folders) if path != Path(__file__)]


def test_the_number_of_suppressions_equals_the_recorded_one() -> None:
    recorded: dict[str, dict[str, int]] = json.loads(RECORDED.read_text("utf-8"))
    now = counted()
    wanted = json.dumps(now, indent=2)
    assert now == recorded, f"more: find another way; fewer: put this into {RECORDED.relative_to(ROOT)}:\n{wanted}"


def test_every_suppression_gives_its_reason() -> None:
    bare = re.compile(r"#\s*(noqa|pyright:\s*ignore|type:\s*ignore)(?!:?\s*[\w\[])|#\s*noqa:[^-]*$", re.MULTILINE)
    wrong = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in source_files("shared", "services", "clients", "cli", "demo")
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if bare.search(line)
    ]
    assert wrong == []
