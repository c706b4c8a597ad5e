"""A server that asks for ever does not keep this process busy, and does not hold up what is sent to it."""

import httpx2
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCRequest, JSONRPCResponse

from pallas_mcp_calls.http import CONNECT_SECONDS, hurry_replies
from pallas_mcp_calls.sessions import Messages


class Asking:
    """A read stream with very many questions, and then an answer."""

    def __init__(self, questions: int) -> None:
        self.left = questions

    async def receive(self) -> SessionMessage:
        self.left -= 1
        if self.left < 0:
            return SessionMessage(JSONRPCResponse(jsonrpc="2.0", id=1, result={}))
        return SessionMessage(JSONRPCRequest(jsonrpc="2.0", id=f"q{self.left}", method="roots/list"))

    __anext__ = receive


async def test_of_very_many_questions_few_are_heard_and_the_answer_behind_them_is() -> None:
    heard = 0
    messages = Messages(Asking(20_000))
    while isinstance((item := await anext(messages)), SessionMessage) and isinstance(item.message, JSONRPCRequest):
        heard += 1
    assert 100 <= heard <= 200


def test_a_reply_has_a_time_limit_of_its_own_and_a_call_has_not() -> None:
    def read_limit(body: dict[str, object]) -> float | None:
        request = httpx2.Request("POST", "http://a.test", json=body, extensions={"timeout": {"read": None}})
        hurry_replies(request)
        return request.extensions["timeout"]["read"]

    assert read_limit({"jsonrpc": "2.0", "id": "q", "result": {"text": '"method":'}}) == CONNECT_SECONDS
    assert read_limit({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {}}) is None
