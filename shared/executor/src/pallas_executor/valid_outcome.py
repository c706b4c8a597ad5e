"""What runtimes answer, as JSON can hold it: texts are mended, and what cannot be mended is no answer."""

import logging
from dataclasses import replace
from typing import Any

from pydantic_core import from_json, to_json, to_jsonable_python

from pallas_contracts.turns import InputRequired, Result
from pallas_contracts.valid import valid_json, valid_text
from pallas_executor.agent_runtime import Completed, Failed, NeedsInput, Outcome

log = logging.getLogger(__name__)


def valid_outcome(outcome: Outcome) -> Outcome:
    """The outcome as JSON can hold it. An answer that it cannot hold is `invalid_answer`, and is not made again."""
    try:
        match outcome:
            case Completed(result):
                return Completed(_valid(result, ("content", "structured", "meta")))
            case NeedsInput(ask):
                return NeedsInput(_valid(ask, ("input_requests", "request_state")))
            case Failed():
                # Its data is for protocol errors only, and may be left out.
                return replace(outcome, message=valid_text(outcome.message), data=_valid_or_none(outcome.data))
    except ValueError as error:
        log.warning("the answer is no JSON", extra={"reason": str(error)})
        return Failed("invalid_answer", f"The agent's answer cannot be used: {error}.")


def _valid[Event: Result | InputRequired](event: Event, fields: tuple[str, ...]) -> Event:
    made = dict[str, Any]()
    for name in fields:
        value = getattr(event, name)
        try:
            valid = valid_value(value)
        except ValueError as error:
            raise ValueError(f"{name!r} is no JSON: {error}") from error
        if valid is not value:
            made[name] = tuple(valid) if isinstance(value, tuple) else valid
    return event.model_copy(update=made) if made else event


def _valid_or_none(data: Any) -> Any:
    try:
        return valid_value(data)
    except ValueError:
        return None


def valid_value(value: Any) -> Any:
    """The value with valid texts. Nearly every value is valid already, which is found out the fastest way.

    Raises:
        ValueError: JSON cannot hold it.
    """
    inside = [[[[value]]]]  # readers count the levels of the message around it
    try:
        from_json(to_json(inside, inf_nan_mode="constants"), allow_inf_nan=False)
    except ValueError:
        try:
            valid = valid_json(inside)
        except TypeError:
            valid = valid_json(to_jsonable_python(inside, inf_nan_mode="constants"))
        return valid[0][0][0][0]
    return value
