"""Who is called, and the errors that say what is wrong with them."""

import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass

import httpx2

from pallas_contracts.errors import Unavailable


class NotSent(Unavailable):
    """No connection could be made, so the request had no effect."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A service that is called: its `name` in sentences, the `code` of its errors. Errors name no addresses."""

    name: str
    code: str

    @property
    def kind(self) -> str:
        """`coder` or `terminal`, for metrics."""
        return self.code.removesuffix("_unavailable")

    def away(self, reason: str, why: str, *, sent: bool = True) -> Unavailable:
        """The error for an answer that does not come. `why` ends the sentence."""
        kind = Unavailable if sent else NotSent
        return kind(f"{self.name} does not answer: {why}.", code=self.code, reason=reason, status=None)

    def unusable(self, reason: str, why: str, *, status: int | None = None) -> Unavailable:
        """The error for an answer that came and is of no use. `why` follows the name."""
        return Unavailable(f"{self.name} {why}.", code=self.code, reason=reason, status=status)


_WORDS: tuple[tuple[type[BaseException], str, str], ...] = (
    (ssl.SSLCertVerificationError, "certificate", "its certificate is not trusted"),
    (ssl.SSLError, "tls", "TLS fails"),
    (ConnectionRefusedError, "refused", "connection refused"),
    (ConnectionError, "reset", "the connection was reset"),
    (socket.gaierror, "name", "its name cannot be resolved"),
    (httpx2.UnsupportedProtocol, "address", "its address is not http(s)"),
    (httpx2.ConnectTimeout, "timeout", "no connection in time"),
    (httpx2.TimeoutException, "timeout", "no answer in time"),
    (httpx2.ConnectError, "unreachable", "no connection"),
)


def explain(error: BaseException) -> tuple[str, str]:
    """The reason and the words for a failed request. Texts of errors are not used: they may have parts of requests."""
    known = tuple(_causes(error))
    for kind, reason, words in _WORDS:
        if any(isinstance(cause, kind) for cause in known):
            return reason, words
    return "broken", "the connection broke"


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
