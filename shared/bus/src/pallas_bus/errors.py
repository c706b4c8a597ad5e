"""Answers of the broker as our types: where a message was stored, or the `PallasError` of its error."""

import asyncio
import logging
import math
import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from socket import gaierror
from typing import TYPE_CHECKING, Any

from nats.aio.msg import Msg
from nats.errors import MaxPayloadError
from pydantic_core import from_json

from pallas_contracts.errors import Conflict, PallasError, Rejected, Unavailable

if TYPE_CHECKING:
    from pallas_bus.connection import Bus


log = logging.getLogger(__name__)

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


RETRYING = "the broker is unavailable; retrying"


async def retry_while_unavailable[T](
    attempt: Callable[[], Awaitable[T]],
    what: str,
    *,
    deadline: float | None = 60.0,
    pause: float = 0.5,
    unless: str | None = None,
    facts: Mapping[str, object] | None = None,
) -> T:
    """Return what `attempt()` returns; call it again, `pause` seconds later, whenever it raises `Unavailable`.

    `deadline` is in seconds from now; None retries for ever. An error with the code `unless` is not retried. The first
    failure is logged as `RETRYING`, with `what` was attempted and `facts`.

    Raises:
        Unavailable: the last attempt failed after the deadline, with the code `unless`, or while this task was being
            cancelled.
    """
    clock = asyncio.get_running_loop().time
    until, logged = None if deadline is None else clock() + deadline, False
    while True:
        try:
            return await attempt()
        except Unavailable as error:
            if error.code == unless or is_cancelled() or (until is not None and clock() > until):
                raise
            if not logged:
                logged = True
                log.log(_level(error), RETRYING, extra={**(facts or {}), "attempted": what, "reason": error.message})
        await asyncio.sleep(pause)


def is_cancelled() -> bool:
    """Whether the current task is being cancelled. An error of its clean-up takes the place of the cancellation."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _level(error: Unavailable) -> int:
    """A stream that does not exist yet is normal while a platform starts."""
    return logging.INFO if error.code == "no_stream" else logging.WARNING


EVERY = 60.0
"""Seconds between two lines with the same text."""


@dataclass
class Rarely:
    """What was logged last, by text: when, and how many were left out since."""

    _logged: dict[str, tuple[float, int]] = field(default_factory=dict[str, tuple[float, int]])

    def warn(self, log: logging.Logger, text: str, **facts: object) -> None:
        """Log a warning with its facts, unless the same text was logged less than a minute ago."""
        now = time.monotonic()
        at, left_out = self._logged.get(text, (-math.inf, 0))
        if now - at < EVERY:
            self._logged[text] = at, left_out + 1
            return
        self._logged[text] = now, 0
        log.warning(text, extra=facts | ({"left_out": left_out} if left_out else {}))


async def for_each[I, R](items: Iterable[I], do: Callable[[I], Awaitable[R]], *, at_once: int) -> list[R]:
    """Call `do` with every item, at most `at_once` at a time. The results are in the order of the items."""
    limit = asyncio.Semaphore(at_once)

    async def one(item: I) -> R:
        async with limit:
            return await do(item)

    return await asyncio.gather(*map(one, items))


POLL_SECONDS = 5.0
"""Seconds between two polls: when the notification of a turn's end is lost, its caller waits that much longer."""
_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 30.0

type Poll = Callable[[], Awaitable[None]]


async def poll_now(poll: Poll) -> None:
    """Poll once; retry until that succeeds."""
    pause = _FIRST_PAUSE
    while True:
        try:
            return await retry_while_unavailable(poll, "poll for missed messages", deadline=None)
        except Exception:
            if is_cancelled():
                raise
            log.exception("polling for missed messages failed")
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)


async def keep_polling(poll: Poll, every: float = POLL_SECONDS) -> None:
    """Poll every `every` seconds, for ever."""
    while True:
        await asyncio.sleep(every)
        await poll_now(poll)


@asynccontextmanager
async def polling(bus: "Bus", poll: Poll, every: float = POLL_SECONDS) -> AsyncGenerator[None]:
    """Keep polling inside the block."""
    task = bus.spawn(keep_polling(poll, every))
    try:
        yield
    finally:
        task.cancel()
