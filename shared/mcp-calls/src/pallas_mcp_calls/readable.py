"""What a server sends, as text that the SDK can read, in lines of a bounded size.

The SDK loses an answer in which a text is cut inside of a character, as many servers cut them, and keeps a line of any
length.
"""

import codecs
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any, override

import httpx2
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter
from pydantic import ValidationError

from pallas_mcp_calls.exchange import LARGEST_ANSWER
from pallas_mcp_calls.pace import MOST_VALUES, Values

_HALF = re.compile(rb"(?<!\\)((?:\\\\)*)(?:(\\u[dD][89abAB]..\\u[dD][c-fC-F]..)|\\u[dD][89a-fA-F]..)", re.DOTALL)
"""An escaped pair of surrogates, or half of one; an even number of backslashes before it escapes itself."""
_OPEN = re.compile(rb"(?:\\u[dD][89abAB]..)?(?:\\(?:u.{0,3})?)?\Z", re.DOTALL)
"""At the end of a part: the first half of a pair, an escape that goes on in the next part, or both."""
_PAIR, _HELD = 12, 64


class ValidBody(httpx2.AsyncByteStream):
    """A body of JSON in which halves of surrogate pairs are replaced: many servers cut texts inside of characters."""

    def __init__(self, inner: httpx2.AsyncByteStream) -> None:
        self._inner = inner

    @override
    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._parts()

    async def _parts(self) -> AsyncGenerator[bytes]:
        held = b""
        async for part in self._inner:
            data = held + part
            end = _end_of_escapes(data)
            held = data[end:]
            if end:
                yield _joined(data[:end])
        if held:
            yield _joined(held)

    @override
    async def aclose(self) -> None:
        await self._inner.aclose()


def _end_of_escapes(data: bytes) -> int:
    """Up to where no escape goes on in the next part."""
    found = _OPEN.search(data, max(0, len(data) - _PAIR))
    if found is None or not found[0]:
        return len(data)
    escapes = len(data[: found.start()].rstrip(b"\\"))
    end = max(escapes, len(data) - _HELD)
    return end + (end - escapes) % 2  # each backslash stays with the one that it escapes


def _joined(data: bytes) -> bytes:
    return _HALF.sub(lambda found: found[0] if found[2] else found[1] + rb"\ufffd", data)


_TOO_LARGE = "a line of the server is too large"


class _BoundedLines(codecs.IncrementalDecoder):
    """Decodes what a server writes, up to the first line that is too large."""

    def __init__(self, errors: str = "strict") -> None:
        super().__init__(errors)
        self._inner = codecs.getincrementaldecoder("utf-8")(errors)
        self._values, self._held, self._ended = Values(), 0, False

    @override
    def decode(self, input: Any, final: bool = False) -> str:
        if self._ended:
            return ""
        part = bytes(input)
        self._held = len(part) - part.rfind(b"\n") - 1 if b"\n" in part else self._held + len(part)
        if self._held > LARGEST_ANSWER or self._values.take(part, b"\n") > MOST_VALUES:
            self._ended = True
            return f"\n{_TOO_LARGE}\n"
        return self._inner.decode(part, final)


def _lines_codec(name: str) -> codecs.CodecInfo | None:
    utf8 = codecs.lookup("utf-8")
    return codecs.CodecInfo(utf8.encode, utf8.decode, incrementaldecoder=_BoundedLines) if name == LINES else None


LINES = "pallas_lines"
"""The name of an encoding, which is UTF-8 in lines of a bounded size: the SDK reads a server in any encoding."""
codecs.register(_lines_codec)


def line_of(error: ValidationError) -> Any:
    """The line that the SDK could not read."""
    return error.errors(include_url=False, include_context=False)[0]["input"]


def is_too_large(error: ValidationError) -> bool:
    """Whether it stands for a line that is too large: nothing behind it is read."""
    return line_of(error) == _TOO_LARGE


def read_again(error: ValidationError, valid: Callable[[Any], Any]) -> SessionMessage | Exception:
    """A line that the SDK could not read for half of a surrogate pair in it, made `valid`; the error for any other."""
    try:
        whole = valid(json.loads(line_of(error)))
        return SessionMessage(jsonrpc_message_adapter.validate_python(whole, by_name=False))
    except (TypeError, ValueError, RecursionError):
        return error
