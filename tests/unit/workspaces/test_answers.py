"""An answer to an agent's question has what can be stored and sent."""

import pytest
from pydantic import ValidationError

from workspaces.http.messages import Answer


@pytest.mark.parametrize("value", ["\ud800", "a\0b", ["\ud800"], float("nan"), float("inf"), {"a": 1}])
def test_a_value_that_cannot_be_stored_is_refused(value: object) -> None:
    with pytest.raises(ValidationError):
        Answer.model_validate({"action": "accept", "content": {"name": value}})


@pytest.mark.parametrize("name", ["\ud800", "a\0b"])
def test_a_name_that_cannot_be_stored_is_refused(name: str) -> None:
    with pytest.raises(ValidationError):
        Answer.model_validate({"action": "accept", "content": {name: "Ada"}})


@pytest.mark.parametrize("value", ["Ada", True, 7, 1.5, ["a", "b"], None])
def test_a_value_that_mcp_allows_stays_what_it_is(value: object) -> None:
    answer = Answer.model_validate({"action": "accept", "content": {"name": value}})
    assert answer.content == {"name": value}
    assert answer.content is not None
    assert type(answer.content["name"]) is type(value)
