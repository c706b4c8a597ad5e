"""What the broker answers, in our words: where a message was stored, or which of our errors its error is."""

import json
import re
from dataclasses import dataclass
from typing import Any

from nats.aio.msg import Msg
from nats.errors import MaxPayloadError

from pallas_contracts.errors import Conflict, PallasError, Rejected, Unavailable

WRONG_LAST_SEQUENCE = 10071
_POSITION = re.compile(r"wrong last sequence: (\d+)")
STREAM_FULL = 10077
IN_FLIGHT = 10164
"""A replicated stream takes one message at a time for each subject whose last position is expected."""


@dataclass(frozen=True, slots=True)
class Stored:
    """Where the broker put a message. `duplicate` means it had this message id already."""

    stream: str
    seq: int
    duplicate: bool = False


def stored(subject: str, message: Msg) -> Stored:
    """Where a message was stored, by the broker's acknowledgement; raises what it says instead."""
    if message.headers and message.headers.get("Status") == "503":
        raise Unavailable(f"no stream takes {subject!r}", code="no_stream")
    answer: dict[str, Any] = json.loads(message.data)
    if "error" in answer:
        raise api_error(answer["error"], subject)
    return Stored(answer["stream"], answer["seq"], answer.get("duplicate", False))


def api_error(error: dict[str, Any], subject: str) -> PallasError:
    """Our error for one of the JetStream API's."""
    code = error.get("err_code", 0)
    text = f"the broker refused {subject!r}: {error.get('description', 'no reason given')}"
    if code == WRONG_LAST_SEQUENCE:
        found = _POSITION.search(text)
        return Conflict(text, code="wrong_last_sequence", err_code=code, last=int(found[1]) if found else None)
    if code == IN_FLIGHT:
        return Unavailable(text, code="in_flight", err_code=code)
    if code == STREAM_FULL:
        return Unavailable(text, code="queue_full", err_code=code)
    if error.get("code") == 404:
        return Unavailable(text, code="no_stream", err_code=code)
    if error.get("code") == 503:
        return Unavailable(text, err_code=code)
    return Rejected(text, err_code=code)


def too_large(attempted: str) -> Rejected:
    """The refusal of a message that is over the broker's limit."""
    return Rejected(f"{attempted}: larger than the broker accepts", code="too_large")


def translated(error: Exception, attempted: str) -> PallasError:
    """Our error for one of nats-py's."""
    if isinstance(error, MaxPayloadError):
        return too_large(attempted)
    return Unavailable(f"{attempted}: {type(error).__name__}")
