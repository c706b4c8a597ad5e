"""A resume without the right to the stream gets the same refusal, whatever the reason."""

import httpx
import pytest
from tests.e2e import wire
from tests.integration.agent_gateway.conftest import Platform
from tests.integration.agent_gateway.streams import KEY, Received, counting
from tests.integration.real_parts import Front
from tests.waiting import soon


@pytest.fixture
async def front(platform: Platform) -> Front:
    """A gateway with a worker."""
    await platform.worker()
    front = await platform.gateway("bench", log_key=KEY)
    await platform.served(front, "sure")
    return front


@pytest.fixture
async def event_id(platform: Platform, front: Front, http: httpx.AsyncClient) -> str:
    """The id of an event of a turn of `bench`."""
    received, file = Received(), platform.file()
    file.touch()
    async with counting(http, front.url(platform.team, "bench"), file) as stream:
        await soon(received.rest(stream))
    return received.ids[3]


async def refusal(
    http: httpx.AsyncClient, url: str, last_event_id: str, **headers: str
) -> tuple[int, wire.Message | None]:
    """The status, and the JSON error if there is one."""
    given = {"accept": "text/event-stream", "last-event-id": last_event_id, **headers}
    answer = await http.get(url, headers=given)
    in_json = answer.headers.get("content-type") == "application/json"
    return answer.status_code, answer.json()["error"] if in_json else None


async def test_an_event_id_is_refused_from_another_caller_at_another_endpoint_or_if_altered(
    platform: Platform, front: Front, http: httpx.AsyncClient, event_id: str
) -> None:
    url = front.url(platform.team, "bench")
    stranger = httpx.AsyncClient(transport=httpx.AsyncHTTPTransport(local_address="127.0.0.2"))
    swapped = event_id[:-1] + ("A" if event_id[-1] != "A" else "B")
    other_key = await platform.gateway("bench", log_key=KEY[::-1])
    async with stranger:
        refused = [
            await refusal(stranger, url, event_id),
            await refusal(http, front.url(platform.team, "sure"), event_id),
            await refusal(http, other_key.url(platform.team, "bench"), event_id),
            await refusal(http, url, swapped),
            await refusal(http, url, event_id[40:]),
            await refusal(http, url, "nonsense"),
            await refusal(http, url, "not base64"),
        ]
    assert refused == [refused[0]] * len(refused)
    status, error = refused[0]
    assert status == 400
    assert error is not None
    assert "Last-Event-ID" in error["message"]
    assert event_id not in str(error)


@pytest.mark.parametrize(
    ("header", "value", "status"), [("host", "evil.example", 421), ("origin", "http://evil.example", 403)]
)
async def test_only_known_hosts_and_origins_may_resume(
    platform: Platform, front: Front, http: httpx.AsyncClient, event_id: str, header: str, value: str, status: int
) -> None:
    url = front.url(platform.team, "bench")
    assert (await refusal(http, url, event_id, **{header: value}))[0] == status


async def test_a_resume_that_does_not_accept_event_streams_is_406(
    platform: Platform, front: Front, http: httpx.AsyncClient, event_id: str
) -> None:
    url = front.url(platform.team, "bench")
    assert (await refusal(http, url, event_id, accept="application/json"))[0] == 406


async def test_a_get_without_an_event_id_is_405(platform: Platform, front: Front, http: httpx.AsyncClient) -> None:
    url = front.url(platform.team, "bench")
    assert (await refusal(http, url, ""))[0] == 405
    assert (await http.get(url, headers={"accept": "text/event-stream"})).status_code == 405
