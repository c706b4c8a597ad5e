"""Answers of the broker as our types: where a message was stored, or the `PallasError` of its error."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from socket import gaierror
from typing import Any

from nats.aio.msg import Msg
from nats.errors import MaxPayloadError
from pydantic_core import from_json

from pallas_contracts.errors import Conflict, PallasError, Rejected, Unavailable

WRONG_LAST_SEQUENCE = 10071
_POSITION = re.compile(r"wrong last sequence: (\d+)")
STREAM_FULL = 10077
STORE_FULL = 10023
IN_FLIGHT = 10164
"""A replicated stream stores one message at a time for each subject whose last position is expected."""
_REFUSED = "authorization violation"
_REASONS = {
    gaierror: "the host name cannot be resolved",
    ConnectionRefusedError: "the connection was refused",
    TimeoutError: "no answer in time",
}


@dataclass(frozen=True, slots=True)
class Stored:
    """Where the broker stored a message. `duplicate`: it had stored a message with this id before."""

    stream: str
    seq: int
    duplicate: bool = False


def stored(subject: str, message: Msg) -> Stored:
    """Where a message was stored, as its acknowledgement says.

    Raises:
        PallasError: the message was not stored (`api_error`).
    """
    if message.headers and message.headers.get("Status") == "503":
        raise Unavailable(
            f"nothing stores {subject!r}: its stream has no leader, or does not exist yet", code="no_stream"
        )
    answer: dict[str, Any] = from_json(message.data)
    if "error" in answer:
        raise api_error(answer["error"], subject)
    return Stored(answer["stream"], answer["seq"], answer.get("duplicate", False))


def api_error(error: dict[str, Any], subject: str) -> PallasError:
    """The `PallasError` of an error of the JetStream API. `facts["err_code"]` is the API's code.

    A `Conflict` also has `facts["last"]`: the position that the broker found, None if it did not name one.
    """
    code = error.get("err_code", 0)
    text = f"the broker refused {subject!r}: {error.get('description', 'no reason given')}"
    if code == WRONG_LAST_SEQUENCE:
        found = _POSITION.search(text)
        return Conflict(text, code="wrong_last_sequence", err_code=code, last=int(found[1]) if found else None)
    if code == IN_FLIGHT:
        return Unavailable(text, code="in_flight", err_code=code)
    if code in (STREAM_FULL, STORE_FULL):
        return Unavailable(text, code="queue_full", err_code=code)
    if error.get("code") == 404:
        return Unavailable(text, code="no_stream", err_code=code)
    if error.get("code") == 503:
        return Unavailable(text, err_code=code)
    return Rejected(text, err_code=code)


def too_large(attempted: str) -> Rejected:
    """The error for a message that exceeds the broker's limit."""
    return Rejected(f"{attempted}: larger than the broker accepts", code="too_large")


def translated(error: Exception, attempted: str) -> PallasError:
    """The `PallasError` of an error of nats-py."""
    if isinstance(error, MaxPayloadError):
        return too_large(attempted)
    return Unavailable(f"{attempted}: {type(error).__name__}")


def not_connected(servers: Sequence[str], service: str, error: Exception) -> Unavailable:
    """The error of a connection that could not be made. It shows no credentials of an address.

    `facts["credentials"]` is true if the broker was reached and rejects the user of `service`.
    """
    where = ", ".join(_without_credentials(server) for server in servers)
    if _REFUSED in str(error).lower():
        return Unavailable(f"NATS at {where} rejects the credentials of {service}", credentials=True)
    reason = next((words for kind, words in _REASONS.items() if isinstance(error, kind)), type(error).__name__)
    return Unavailable(f"cannot connect to NATS at {where}: {reason}")


def _without_credentials(server: str) -> str:
    scheme, mark, rest = server.rpartition("://")
    return f"{scheme}{mark}{rest.rpartition('@')[2]}"
