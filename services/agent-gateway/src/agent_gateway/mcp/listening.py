"""`subscriptions/listen` of the modern era: what a stream of changes may be asked for, and what it gets."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, override

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.subscriptions import ListenHandler, SubscriptionBus
from mcp.shared.exceptions import MCPError

from agent_gateway.caller import principal_of
from agent_gateway.handshake.sessions import MOST_SUBSCRIPTIONS
from agent_gateway.mcp.request import scope_of
from agent_gateway.mcp.resource_changes import ResourceChanges
from agent_gateway.open_streams import OpenStreams

type Readable = Callable[[Any, Sequence[str]], Awaitable[list[str]]]


class Listening(ListenHandler):
    """Serves the streams. Resources that the caller cannot read are left out of what is acknowledged."""

    def __init__(
        self, bus: SubscriptionBus, streams: OpenStreams, changes: ResourceChanges, readable: Readable
    ) -> None:
        super().__init__(bus, max_subscriptions=streams.most)
        self._open = streams
        self._changes = changes
        self._readable = readable

    @override
    async def __call__(
        self, ctx: ServerRequestContext[Any, Any], params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        wanted = dict.fromkeys(params.notifications.resource_subscriptions or ())
        if len(wanted) > MOST_SUBSCRIPTIONS:
            message = f"A stream can have {MOST_SUBSCRIPTIONS} resources, not {len(wanted)}."
            raise MCPError(code=types.INVALID_PARAMS, message=message)
        caller = principal_of(scope_of(ctx))
        if (full := self._open.full(caller)) is not None:
            raise MCPError(code=types.INTERNAL_ERROR, message=full, data={"code": "busy"})
        with self._open.opened(caller), self._changes.wanting() as want:
            uris = await self._readable(ctx, list(wanted))
            honored = params.notifications.model_copy(update={"resource_subscriptions": uris})
            want(uris)
            return await super().__call__(ctx, params.model_copy(update={"notifications": honored}))
