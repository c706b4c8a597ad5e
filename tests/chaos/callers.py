"""The callers of a storm: each makes one call over MCP and keeps what it was told, stream by stream."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

import httpx
from tests.chaos.evidence import Answer, CallerView
from tests.chaos.script import ScriptedCall
from tests.e2e import wire

PATIENCE = 120.0
"""Seconds after which a call counts as never answered."""

_AGAIN = 0.3


class Unanswered(Exception):
    """The stream ended, or there never was one. `sent` tells whether a gateway may have taken the call."""

    def __init__(self, *, sent: bool) -> None:
        super().__init__("the stream broke")
        self.sent = sent


@dataclass(frozen=True)
class Callers:
    """Makes calls at the gateways."""

    http: httpx.AsyncClient
    gateways: Sequence[int]

    async def call(self, call: ScriptedCall) -> CallerView:
        """Make one call, until it is answered or its caller has to give up."""
        view = CallerView(call.key, call.agent, call.kind, goes_on=call.kind == "keyed")
        try:
            async with asyncio.timeout(PATIENCE):
                await self._try(call, view)
        except TimeoutError:
            view.ended = "unheard"
        return view

    async def _try(self, call: ScriptedCall, view: CallerView) -> None:
        """Call until there is an answer. Without a key only what has been refused may be called again."""
        gateway = call.gateway
        while True:
            began = False
            try:
                await self._once(call, view, gateway)
            except Unanswered as error:
                began = error.sent
                if began and not view.goes_on:
                    view.ended = "broken"
                    return
            else:
                if view.ended != "refused":
                    return
            if not began:
                view.streams.pop()
            await asyncio.sleep(_AGAIN)
            view.ended, gateway = "unheard", gateway + 1

    async def _once(self, call: ScriptedCall, view: CallerView, gateway: int) -> None:
        """One stream of the call. A cancel in the modern era closes it."""
        view.streams.append([])
        url = f"http://127.0.0.1:{self.gateways[gateway % len(self.gateways)]}/teams/chaos/mcp/{call.agent}"
        if "legacy" in call.kind:
            session = await self._session(url)
            request = wire.legacy("tools/call", params_of(call), session, request_id=call.key)
            cancelling = asyncio.create_task(self._cancel(call, url, session))
            try:
                await self._follow(view, url, request)
            finally:
                cancelling.cancel()
            return
        try:
            async with asyncio.timeout(call.cancel_after):
                await self._follow(view, url, wire.modern("tools/call", params_of(call), request_id=call.key))
        except TimeoutError:
            view.ended = "closed"

    async def _session(self, url: str) -> str:
        try:
            return await wire.shake_hands(self.http, url)
        except (httpx.TransportError, AssertionError) as error:
            raise Unanswered(sent=False) from error

    async def _cancel(self, call: ScriptedCall, url: str, session: str) -> None:
        """Send the handshake era's cancel when its time has come."""
        if call.cancel_after is None:
            return
        await asyncio.sleep(call.cancel_after)
        body, headers = wire.legacy(
            "notifications/cancelled", {"requestId": call.key, "reason": "enough"}, session, request_id=None
        )
        try:
            await self.http.post(url, json=body, headers=headers)
        except httpx.TransportError:
            return

    async def _follow(self, view: CallerView, url: str, request: tuple[wire.Message, dict[str, str]]) -> None:
        lines = view.streams[-1]
        body, headers = request
        try:
            async with self.http.stream("POST", url, json=body, headers=headers) as response:
                if response.status_code != 200:
                    # A gateway that stops says whether it has taken the call: only what it refused may be tried again.
                    raise Unanswered(sent=response.status_code != 404 and "retry-after" not in response.headers)
                async for message in _messages(response):
                    if message.get("method") == "notifications/progress":
                        lines.append(str(message["params"].get("message")))
                    elif "id" in message:
                        _take(view, message)
                        return
        except httpx.ConnectError as error:
            raise Unanswered(sent=False) from error
        except httpx.TransportError as error:
            raise Unanswered(sent=True) from error
        raise Unanswered(sent=True)


async def _messages(response: httpx.Response) -> AsyncIterator[dict[str, Any]]:
    if response.headers["content-type"].startswith("application/json"):
        yield json.loads(await response.aread())
        return
    async for line in response.aiter_lines():
        if line.startswith("data:") and line[5:].strip():
            yield json.loads(line[5:])


def params_of(call: ScriptedCall) -> dict[str, Any]:
    """The MCP parameters of a call."""
    half = round(call.seconds / 3, 2)
    match call.agent:
        case "teller":
            counted = json.dumps({"key": call.key, "seconds": half})
            message = f"/sleep {half}\n/tool counter__count {counted}\n/sleep {half}\n/say {call.key} done"
            tool, arguments = "teller", {"message": message, "conversation_id": call.key}
        case "quick":
            tool, arguments = "answer", {"key": call.key}
        case _:
            tool, arguments = "append", {"key": call.key, "seconds": round(call.seconds, 2), "steps": call.steps}
    key = {"pallas/idempotency-key": call.key} if call.kind == "keyed" else {}
    return {"name": tool, "arguments": arguments, "_meta": {"progressToken": call.key, **key}}


def _take(view: CallerView, message: dict[str, Any]) -> None:
    """Keep the answer. What was refused may be tried again; anything else ends the call."""
    result = message.get("result")
    if result is None:
        view.answer, view.ended = Answer(None, f"protocol {message.get('error')}", ""), "answered"
        return
    meta: dict[str, Any] = result.get("_meta") or {}
    text = "\n".join(block.get("text", "") for block in result.get("content", ()))
    error = meta.get("pallas/error")
    if error is None:
        view.answer, view.ended = Answer(meta.get("pallas/turn"), None, text), "answered"
    else:
        view.answer = Answer(error.get("turn_id"), error["code"], text)
        view.ended = "refused" if error["code"] == "busy" else "answered"
