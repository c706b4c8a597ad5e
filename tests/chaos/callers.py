"""The callers of a storm: each makes one call over MCP and keeps its progress messages, stream by stream."""

import asyncio
import json
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

import httpx
from tests.chaos.evidence import Answer, CallerView
from tests.chaos.programs import program_of
from tests.chaos.script import DATA_AGENTS, PROGRAM, ScriptedCall
from tests.e2e import wire

from pallas_contracts.catalog import CONSTELLATION, DATA_TEAM, PIPELINES_TEAM

PATIENCE = 120.0
"""Seconds after which a call counts as never answered."""

_AGAIN = 0.3


class Unanswered(Exception):
    """The stream ended, or there never was one. `sent` is True if a gateway may have accepted the call."""

    def __init__(self, *, sent: bool) -> None:
        super().__init__("the stream broke")
        self.sent = sent


@dataclass(frozen=True)
class Callers:
    """Makes calls at the gateways."""

    http: httpx.AsyncClient
    gateways: Sequence[int]
    patience: float = PATIENCE

    async def call(self, call: ScriptedCall) -> CallerView:
        """Make one call, until it is answered or its caller has to give up."""
        view = CallerView(call.key, call.agent, call.kind, goes_on=call.kind == "keyed")
        try:
            async with asyncio.timeout(self.patience):
                await self._try(call, view)
        except TimeoutError:
            view.ended = "unheard"
        return view

    async def _try(self, call: ScriptedCall, view: CallerView) -> None:
        """Call until there is an answer. Only what has been refused may be called again by whoever sent no key and was
        received no event id.
        """
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
        url = f"http://127.0.0.1:{self.gateways[gateway % len(self.gateways)]}{_path(call.agent)}"
        if view.last_event is not None:
            await self._follow(view, wire.resumed(self.http, url, view.last_event))
            return
        if "legacy" in call.kind:
            session = await self._session(url)
            request = wire.legacy("tools/call", params_of(call), session, request_id=call.key)
            cancelling = asyncio.create_task(self._cancel(call, url, session))
            try:
                await self._follow(view, wire.posted(self.http, url, request))
            finally:
                cancelling.cancel()
            return
        try:
            async with asyncio.timeout(call.cancel_after):
                request = wire.modern("tools/call", params_of(call), request_id=call.key)
                await self._follow(view, wire.posted(self.http, url, request))
        except TimeoutError:
            view.ended = "closed"

    async def _session(self, url: str) -> str:
        try:
            return await wire.shake_hands(self.http, url)
        except (httpx.TransportError, AssertionError) as error:
            raise Unanswered(sent=False) from error

    async def _cancel(self, call: ScriptedCall, url: str, session: str) -> None:
        """Send the handshake era's cancel after its delay."""
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

    async def _follow(self, view: CallerView, opening: AbstractAsyncContextManager[wire.Stream]) -> None:
        try:
            async with opening as stream:
                status, headers = stream.response.status_code, stream.response.headers
                if status != 200:
                    # A gateway that stops says whether it has taken the call: only what it refused may be tried again.
                    raise Unanswered(sent=status != 404 and "retry-after" not in headers)
                await _hear(view, stream)
        except httpx.ConnectError as error:
            raise Unanswered(sent=False) from error
        except httpx.TransportError as error:
            raise Unanswered(sent=True) from error


def _path(agent: str) -> str:
    if agent == PROGRAM:
        return f"/teams/{PIPELINES_TEAM}/mcp/{CONSTELLATION}"
    return f"/teams/{DATA_TEAM if agent in DATA_AGENTS else 'chaos'}/mcp/{agent}"


async def _hear(view: CallerView, stream: wire.Stream) -> None:
    """Keep the messages of the stream, up to the answer. An answer without progress is no stream."""
    if stream.response.headers["content-type"].startswith("application/json"):
        _take(view, json.loads(await stream.response.aread()))
        return
    async for event in stream.events():
        if event.id is not None:
            view.last_event, view.goes_on = event.id, True
        message = event.message or {}
        if message.get("method") == "notifications/progress":
            view.streams[-1].append(str(message["params"].get("message")))
        elif "id" in message:
            _take(view, message)
            return
    raise Unanswered(sent=True)


def params_of(call: ScriptedCall) -> dict[str, Any]:
    """The MCP parameters of a call."""
    half = round(call.seconds / 3, 2)
    match call.agent:
        case "teller":
            counted = json.dumps({"key": call.key, "seconds": half})
            message = f"/sleep {half}\n/tool counter__count {counted}\n/sleep {half}\n/say {call.key} done"
            tool, arguments = "teller", {"message": message, "conversation_id": call.key}
        case "planner" | "asker" | "steward":
            tool, arguments = call.agent, {"message": _planned(call), "conversation_id": call.key}
        case "courier":
            tool, arguments = "carry", {"key": call.key, "seconds": round(call.seconds, 2), "steps": call.steps}
        case "meter" | "gauge":
            tool, arguments = "measure", {"key": call.key, "seconds": round(call.seconds, 2)}
        case "program":
            tool, arguments = "execute", {"source": program_of(call).source, "inputs": {"key": call.key}}
        case "quick":
            tool, arguments = "answer", {"key": call.key}
        case _:
            tool, arguments = "append", {"key": call.key, "seconds": round(call.seconds, 2), "steps": call.steps}
    key = {"pallas/idempotency-key": call.key} if call.kind == "keyed" else {}
    return {"name": tool, "arguments": arguments, "_meta": {"progressToken": call.key, **key}}


def _planned(call: ScriptedCall) -> str:
    """Steps of a model and of its tools, by turns: one that may not be called again, one that may, and both at once."""
    steps = max(3, call.steps // 2)
    each = round(call.seconds / steps / 2, 2)
    lines = [call.key]
    for step in range(1, steps + 1):
        tools = (("count",), ("look",), ("count", "look"))[(step - 1) % 3]
        lines += [f"/sleep {each}", "/parallel"]
        for number, tool in enumerate(tools, 1):
            lines.append(f"/tool counter/{tool} {json.dumps({'key': f'{call.key}/{step}.{number}', 'seconds': each})}")
    return "\n".join([*lines, f"/sleep {each}", f"/say {call.key} done"])


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
