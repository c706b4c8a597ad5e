"""What comes from a downstream server, made usable before the SDK reads it.

The SDK drops a whole answer for one fault in it. Here a tool that is not one of MCP is left out, and a block of a
result, which may have cost something, becomes text.
"""

import json
from collections.abc import Callable
from typing import Any, get_args, override

from mcp.shared.message import SessionMessage
from mcp_types import ContentBlock, JSONRPCResponse, Tool
from mcp_types.methods import SERVER_RESULTS
from mcp_types.version import LATEST_HANDSHAKE_VERSION, LATEST_MODERN_VERSION
from pydantic import TypeAdapter, ValidationError

from pallas_contracts.bounds import reason_of
from pallas_contracts.valid import valid_json
from pallas_mcp_calls.readable import is_too_large, read_again
from pallas_mcp_calls.sessions import Messages

type LeftOut = Callable[[str, str], None]
"""Called with the name of a tool that is left out, and why."""

_LONGEST_BLOCK = 2_000
_LONGEST_NAME = 256


def _tools_of(version: str) -> TypeAdapter[Any]:
    listed: Any = SERVER_RESULTS["tools/list", version]
    return TypeAdapter(get_args(listed.model_fields["tools"].annotation)[0])


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
            if is_too_large(item):
                self._on_end()
            item = read_again(item, valid_json)
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


def _block(block: Any) -> Any:
    try:
        _BLOCK.validate_python(block, by_name=False)
    except ValidationError:
        return {"type": "text", "text": json.dumps(block, ensure_ascii=False)[:_LONGEST_BLOCK]}
    return block
