"""What is known of a request that a session has sent."""

import httpx2

from pallas_mcp_calls.exchange import Exchange, current
from pallas_mcp_calls.sessions import BoundedTransport


async def test_a_request_whose_answer_is_lost_is_not_refused_because_one_before_it_was() -> None:
    answers = iter([httpx2.Response(400), httpx2.ReadError("reset")])

    def answer(_: httpx2.Request) -> httpx2.Response:
        if isinstance(given := next(answers), Exception):
            raise given
        return given

    current.set(exchange := Exchange())
    async with httpx2.AsyncClient(transport=BoundedTransport(httpx2.MockTransport(answer))) as http:
        await http.post("http://agent.example")
        assert exchange.refused
        await http.post("http://agent.example")
    assert exchange.fault is not None
    assert not exchange.refused
