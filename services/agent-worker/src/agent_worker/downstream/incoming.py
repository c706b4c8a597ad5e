"""What comes from a downstream server, made usable before the SDK reads it.

The SDK drops a whole answer for one fault in it. Here a tool that is not one of MCP is left out, and a block of a
result, which may have cost something, becomes text.
"""

import codecs
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any, get_args, override

import httpx2
from mcp.shared.message import SessionMessage
from mcp_types import ContentBlock, JSONRPCResponse, Tool, jsonrpc_message_adapter
from mcp_types.methods import SERVER_RESULTS
from mcp_types.version import LATEST_HANDSHAKE_VERSION, LATEST_MODERN_VERSION
from pydantic import TypeAdapter, ValidationError

from pallas_contracts.bounds import reason_of
from pallas_contracts.valid import valid_json
from pallas_mcp_calls.exchange import LARGEST_ANSWER
from pallas_mcp_calls.pace import MOST_VALUES, Values
from pallas_mcp_calls.sessions import Messages

type LeftOut = Callable[[str, str], None]
"""Called with the name of a tool that is left out, and why."""

_LONGEST_BLOCK = 2_000
_LONGEST_NAME = 256


def _tools_of(version: str) -> TypeAdapter[Any]:
    listed: Any = SERVER_RESULTS["tools/list", version]
    return TypeAdapter(get_args(listed.model_fields["tools"].annotation)[0])


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
    """Decodes what a stdio server writes, up to the first line that is too large: the SDK would keep any line."""

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

_BLOCK = TypeAdapter[ContentBlock](ContentBlock)
_HANDSHAKE_TOOL, _MODERN_TOOL = _tools_of(LATEST_HANDSHAKE_VERSION), _tools_of(LATEST_MODERN_VERSION)


class Incoming(Messages):
    """The read stream of a transport. `on_end` is called when it ends: no further request would be answered."""

    def __init__(self, inner: Any, on_end: Callable[[], None], left_out: LeftOut) -> None:
        super().__init__(inner)
        self._on_end = on_end
        self._left_out = left_out

    @override
    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await super().__anext__()
        except BaseException:
            self._on_end()
            raise

    @override
    def usable(self, item: SessionMessage | Exception) -> SessionMessage | Exception:
        if isinstance(item, ValidationError):
            if _line_of(item) == _TOO_LARGE:
                self._on_end()
            item = _read_again(item)
        if isinstance(item, SessionMessage) and isinstance(item.message, JSONRPCResponse):
            result = item.message.result
            match result:
                case {"tools": [*tools]}:
                    tool = _MODERN_TOOL if "resultType" in result else _HANDSHAKE_TOOL
                    result["tools"] = [each for each in tools if self._is_usable(tool, each)]
                case {"content": [*blocks]}:
                    result["content"] = [_block(each) for each in blocks]
                case _:
                    pass
        return item

    def _is_usable(self, adapter: TypeAdapter[Any], tool: Any) -> bool:
        name = "a tool without a name"
        match tool:
            case {"name": str(given)} if given:
                name = given[:_LONGEST_NAME]
            case _:
                pass
        match tool:
            case {"inputSchema": {**schema}} if "type" not in schema:
                tool["inputSchema"] = {"type": "object"} | schema  # arguments are always an object
            case _:
                pass
        try:
            adapter.validate_python(tool, by_name=False)
            if len(Tool.model_validate(tool, by_name=False).name) <= _LONGEST_NAME:
                return True
            self._left_out(name, "name: it is too long")
        except ValidationError as error:
            self._left_out(name, reason_of(error))
        return False


def _line_of(error: ValidationError) -> Any:
    return error.errors(include_url=False, include_context=False)[0]["input"]


def _read_again(error: ValidationError) -> SessionMessage | Exception:
    """A line that the SDK could not read for half of a surrogate pair in it; the error for any other."""
    try:
        whole = valid_json(json.loads(_line_of(error)))
        return SessionMessage(jsonrpc_message_adapter.validate_python(whole, by_name=False))
    except (TypeError, ValueError, RecursionError):
        return error


def _block(block: Any) -> Any:
    try:
        _BLOCK.validate_python(block, by_name=False)
    except ValidationError:
        return {"type": "text", "text": json.dumps(block, ensure_ascii=False)[:_LONGEST_BLOCK]}
    return block
