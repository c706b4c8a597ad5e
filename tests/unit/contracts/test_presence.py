"""The bounds of a worker's presence, which every gateway reads."""

from typing import Any

import pytest
from pydantic import ValidationError

from pallas_contracts.agents import WorkerPresence
from pallas_contracts.bounds import LONGEST_LINE, LONGEST_NAME, MANY
from pallas_contracts.catalog import WORKERS
from pallas_contracts.message import utc_now


def presence(**fields: Any) -> bytes:
    return WorkerPresence.model_construct(worker="w", slots=1, at=utc_now(), **fields).model_dump_json().encode()


@pytest.mark.parametrize("field", ["failed", "stdio"])
def test_reasons_within_the_bounds_are_read(field: str) -> None:
    reasons = {f"team.{number}": "x" * LONGEST_LINE for number in range(MANY)}
    assert getattr(WORKERS.read("w", presence(**{field: reasons})), field) == reasons


@pytest.mark.parametrize("field", ["failed", "stdio"])
@pytest.mark.parametrize(
    "reasons",
    [
        {"team.agent": "x" * (LONGEST_LINE + 1)},
        {"x" * (LONGEST_NAME + 1): "why"},
        {f"team.{number}": "why" for number in range(MANY + 1)},
    ],
    ids=["reason", "name", "many"],
)
def test_reasons_beyond_a_bound_are_not_read(field: str, reasons: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        WORKERS.read("w", presence(**{field: reasons}))
