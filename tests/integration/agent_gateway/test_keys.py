"""Calls with an idempotency key become one turn, however often and wherever they are sent."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.conftest import Connecting
from tests.e2e import wire
from tests.embedded import NatsServer
from tests.integration.agent_gateway.conftest import Platform, make_platform
from tests.integration.real_parts import Front, until
from tests.waiting import eventually, soon

from pallas_bus.streams import NANOSECONDS
from pallas_contracts.agents import Limits
from pallas_contracts.catalog import TURN_CONTENT, TURN_LOG, TURN_QUEUE
from pallas_contracts.turns import CancelRequested, Claimed
from pallas_turns.claims import TurnRef
from pallas_turns.content import OFFLOAD_ABOVE
from pallas_turns.queue import ensure_consumer, queue_state

KEY = "pallas/idempotency-key"
LOG_KEY = "one key for all replicas of a test"
REPEATS = 0.1


@pytest.fixture
async def fronts(platform: Platform) -> tuple[Front, Front]:
    """Two gateways with a worker."""
    await platform.worker()
    return await two_gateways(platform)


async def two_gateways(platform: Platform) -> tuple[Front, Front]:
    """Replicas that share a key."""
    first, second = await platform.gateway(log_key=LOG_KEY), await platform.gateway(log_key=LOG_KEY)
    await platform.served(first)
    await platform.served(second)
    return first, second


def keyed(name: str, arguments: dict[str, Any], key: object = "a key") -> dict[str, Any]:
    """The params of a call with a key."""
    return {"name": name, "arguments": arguments, "_meta": {"progressToken": "t", KEY: key}}


def effects(platform: Platform, number: int = 0) -> int:
    """How often the tool `effect` ran."""
    file = platform.files[number].with_suffix(".effects")
    return len(file.read_text().splitlines()) if file.exists() else 0


async def result(http: httpx.AsyncClient, front: Front, platform: Platform, params: dict[str, Any]) -> dict[str, Any]:
    """Call the bench, and return the result."""
    messages = await soon(wire.answers(http, front.url(platform.team, "bench"), wire.modern("tools/call", params)))
    return messages[-1]["result"]


def calling(
    http: httpx.AsyncClient, front: Front, platform: Platform, params: dict[str, Any]
) -> "asyncio.Task[dict[str, Any]]":
    """Start the same call in the background."""
    return asyncio.create_task(result(http, front, platform, params))


def fault(result: dict[str, Any]) -> dict[str, Any]:
    """The facts of a tool error."""
    assert result["isError"], result
    return result["_meta"]["pallas/error"]


def joined(*fronts: Front, platform: Platform) -> float:
    """How many calls have joined an existing turn."""
    return sum(front.counted("pallas_turns_joined_total", team=platform.team, agent="bench") for front in fronts)


async def leave(http: httpx.AsyncClient, front: Front, platform: Platform, params: dict[str, Any]) -> None:
    """Make a call, wait for its first event, and close its stream."""
    request = wire.modern("tools/call", params)
    async with wire.posted(http, front.url(platform.team, "bench"), request) as stream:
        async for message in stream.messages():
            if "waiting in attempt" in message["params"]["message"]:
                break


async def test_concurrent_calls_on_two_replicas_become_one_turn_with_the_same_answer(
    platform: Platform, fronts: tuple[Front, Front], http: httpx.AsyncClient
) -> None:
    params = keyed("effect", {"file": str(platform.file())})
    both = [calling(http, front, platform, params) for front in fronts]
    await eventually(lambda: joined(*fronts, platform=platform) == 1)
    await platform.claim(Claimed)
    platform.files[0].touch()
    first, second = await asyncio.gather(*both)
    assert first == second
    assert first["content"][0]["text"] == "waited in attempt 1"
    assert effects(platform) == 1
    assert platform.counted("pallas_turns_total", outcome="completed") == 1


async def test_many_concurrent_calls_become_one_turn(
    platform: Platform, fronts: tuple[Front, Front], http: httpx.AsyncClient
) -> None:
    params = keyed("effect", {"file": str(platform.file())})
    platform.files[0].touch()
    results = await asyncio.gather(*(calling(http, fronts[n % 2], platform, params) for n in range(20)))
    assert all(each == results[0] for each in results)
    assert effects(platform) == 1
    assert joined(*fronts, platform=platform) == 19
    accepted = {"team": platform.team, "agent": "bench"}
    assert sum(front.counted("pallas_turns_accepted_total", **accepted) for front in fronts) == 1


async def test_a_call_that_joins_a_turn_gets_its_earlier_events(
    platform: Platform, fronts: tuple[Front, Front], http: httpx.AsyncClient
) -> None:
    params = keyed("effect", {"file": str(platform.file())})
    first = calling(http, fronts[0], platform, params)
    await eventually(lambda: effects(platform) == 1)
    request = wire.modern("tools/call", params)
    async with wire.posted(http, fronts[1].url(platform.team, "bench"), request) as stream:
        messages = stream.messages()
        lines = [(await soon(anext(messages)))["params"]["message"] for _ in range(2)]
        platform.files[0].touch()
        last = [message async for message in messages][-1]
    assert lines == ["bench/write: started", "waiting in attempt 1"]
    assert last["result"] == await first


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_finished_turn_is_answered_from_the_log(
    platform: Platform, fronts: tuple[Front, Front], http: httpx.AsyncClient, era: str
) -> None:
    params, url = keyed("effect", {"file": str(platform.file())}), fronts[1].url(platform.team, "bench")
    platform.files[0].touch()
    first = await result(http, fronts[0], platform, params)
    if era == "modern":
        again = await result(http, fronts[1], platform, params)
    else:
        session = await wire.shake_hands(http, url)
        again = (await soon(wire.answers(http, url, wire.legacy("tools/call", params, session))))[-1]["result"]
    if era == "modern":
        assert again == first
    assert again["content"] == first["content"]
    assert again["_meta"]["pallas/turn"] == first["_meta"]["pallas/turn"]
    assert effects(platform) == 1
    assert len([claimed for claimed in platform.claims.items if isinstance(claimed.claim, Claimed)]) == 1


async def test_an_expired_answer_is_reported_and_nothing_is_executed_again(
    platform: Platform, fronts: tuple[Front, Front], http: httpx.AsyncClient
) -> None:
    params = keyed("effect", {"file": str(platform.file())})
    platform.files[0].touch()
    await result(http, fronts[0], platform, params)
    ref = TurnRef(platform.team, "bench", (await platform.claim(Claimed)).turn_id)
    subject = ref.on(TURN_CONTENT.template)
    await platform.bus.api(f"STREAM.PURGE.{TURN_LOG.name}", {"filter": subject})
    facts = fault(await result(http, fronts[1], platform, params))
    assert (facts["code"], facts["retryable"]) == ("content_expired", False)
    assert effects(platform) == 1


@pytest.mark.parametrize("when", ["waits", "runs", "over"])
async def test_a_key_with_other_arguments_is_refused(platform: Platform, http: httpx.AsyncClient, when: str) -> None:
    if when == "waits":
        await platform.publish()
        await ensure_consumer(platform.bus, platform.team, "bench", max_concurrency=None)
    else:
        await platform.worker()
    fronts = await two_gateways(platform)
    first = calling(http, fronts[0], platform, keyed("wait", {"file": str(platform.file())}))
    if when == "waits":
        await until(lambda: waiting(platform, 1))
    else:
        await platform.claim(Claimed)
    if when == "over":
        platform.files[0].touch()
        await first
    facts = fault(await result(http, fronts[1], platform, keyed("wait", {"file": str(platform.file())})))
    assert (facts["code"], facts["retryable"]) == ("key_reused", False)
    first.cancel()


async def test_of_two_concurrent_big_calls_with_one_key_one_is_executed_and_the_other_refused(
    platform: Platform, fronts: tuple[Front, Front], http: httpx.AsyncClient
) -> None:
    texts = ["x" * 2 * OFFLOAD_ABOVE, "y" * 2 * OFFLOAD_ABOVE]
    pairs = zip(fronts, texts, strict=True)
    results = await asyncio.gather(
        *(calling(http, front, platform, keyed("say", {"text": text})) for front, text in pairs)
    )
    refused = [each for each in results if each["isError"]]
    assert [fault(each)["code"] for each in refused] == ["key_reused"]
    [text] = [each["content"][0]["text"] for each in results if not each["isError"]]
    assert text in [f"{each} (attempt 1)" for each in texts]


async def waiting(platform: Platform, number: int) -> bool:
    """Whether so many turns wait for a worker."""
    return (await queue_state(platform.bus, platform.team, "bench")).waiting == number


async def test_the_same_key_of_another_caller_or_tool_makes_another_turn(
    platform: Platform, fronts: tuple[Front, Front], http: httpx.AsyncClient
) -> None:
    elsewhere = httpx.AsyncHTTPTransport(local_address="127.0.0.2")
    async with httpx.AsyncClient(timeout=20, trust_env=False, transport=elsewhere) as other:
        mine = await result(http, fronts[0], platform, keyed("say", {"text": "mine"}))
        theirs = await result(other, fronts[0], platform, keyed("say", {"text": "theirs"}))
    platform.file().touch()
    waited = await result(http, fronts[0], platform, keyed("wait", {"file": str(platform.files[0])}))
    assert [each["content"][0]["text"] for each in (mine, theirs, waited)] == [
        "mine (attempt 1)",
        "theirs (attempt 1)",
        "waited in attempt 1",
    ]
    assert joined(*fronts, platform=platform) == 0


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_turn_that_all_callers_have_left_runs_to_its_end_and_answers_its_key(
    platform: Platform, fronts: tuple[Front, Front], http: httpx.AsyncClient, era: str
) -> None:
    params, url = keyed("effect", {"file": str(platform.file())}), fronts[0].url(platform.team, "bench")
    if era == "legacy":
        request = wire.legacy("tools/call", params, await wire.shake_hands(http, url))
        async with wire.posted(http, url, request) as stream:
            await anext(stream.messages())
    else:
        stays = calling(http, fronts[1], platform, params)
        await platform.claim(Claimed)
        await leave(http, fronts[0], platform, params)
        stays.cancel()
        await asyncio.wait({stays})
    claimed = await platform.claim(Claimed)
    platform.files[0].touch()
    assert (await platform.outcome(claimed)).status == "completed"
    again = await result(http, fronts[1], platform, params)
    assert (again["content"][0]["text"], effects(platform)) == ("waited in attempt 1", 1)
    assert not [claimed for claimed in platform.claims.items if isinstance(claimed.claim, CancelRequested)]


async def test_a_handshake_era_caller_that_has_joined_cancels_by_its_notification(
    platform: Platform, fronts: tuple[Front, Front], http: httpx.AsyncClient
) -> None:
    url, params = fronts[1].url(platform.team, "bench"), keyed("wait", {"file": str(platform.file())})
    first = calling(http, fronts[0], platform, params)
    await platform.claim(Claimed)
    session = await wire.shake_hands(http, url)
    second = asyncio.create_task(wire.answers(http, url, wire.legacy("tools/call", params, session, request_id=7)))
    await eventually(lambda: joined(*fronts, platform=platform) == 1)
    body, headers = wire.legacy("notifications/cancelled", {"requestId": 7}, session, request_id=None)
    assert (await http.post(url, json=body, headers=headers)).status_code == 202
    assert fault(await first)["code"] == fault((await soon(second))[-1]["result"])["code"] == "cancelled"


@pytest.mark.usefixtures("asked_in_time")
async def test_a_waiting_turn_is_joined_at_a_full_queue_and_stays_in_it_without_callers(
    platform: Platform, http: httpx.AsyncClient
) -> None:
    await platform.publish(limits=Limits(max_queued=1))
    await ensure_consumer(platform.bus, platform.team, "bench", max_concurrency=None)
    fronts = await two_gateways(platform)
    params = keyed("wait", {"file": str(platform.file())})
    first = calling(http, fronts[0], platform, params)
    await until(lambda: waiting(platform, 1))
    assert fault(await result(http, fronts[1], platform, keyed("wait", {}, "another")))["code"] == "busy"
    second = calling(http, fronts[1], platform, params)
    await eventually(lambda: joined(*fronts, platform=platform) == 1)
    for call in (first, second):
        call.cancel()
    await asyncio.wait({first, second})
    platform.files[0].touch()
    await platform.worker()
    assert (await result(http, fronts[0], platform, params))["content"][0]["text"] == "waited in attempt 1"


@pytest.fixture
async def alone(nats_server: NatsServer, bus: Connecting, team: str, tmp_path: Path) -> AsyncGenerator[Platform]:
    """A platform on a broker of the test's own."""
    connection = await bus("agent-gateway", url=nats_server.url)
    async for made in make_platform(connection, nats_server.url, team, tmp_path):
        yield made


@pytest.mark.parametrize("when", ["waits", "runs", "over"])
async def test_a_turn_is_joined_even_after_the_broker_has_forgotten_its_message_id(
    alone: Platform, http: httpx.AsyncClient, when: str
) -> None:
    await alone.publish()
    await ensure_consumer(alone.bus, alone.team, "bench", max_concurrency=None)
    if when != "waits":
        await alone.worker()
    fronts = await two_gateways(alone)
    await forget_repeats(alone)
    params = keyed("wait", {"file": str(alone.file())})
    first = calling(http, fronts[0], alone, params)
    if when == "over":
        alone.files[0].touch()
        await asyncio.wait({first})
    await asyncio.sleep(5 * REPEATS)  # the deduplication window itself has to pass
    again = calling(http, fronts[1], alone, params)
    await eventually(lambda: joined(*fronts, platform=alone) == 1)
    stored = await alone.bus.api(f"STREAM.INFO.{TURN_QUEUE.name}", {})
    assert stored["state"]["last_seq"] == 1
    alone.files[0].touch()
    if when == "waits":
        await alone.worker()
    assert await first == await again


async def forget_repeats(platform: Platform) -> None:
    """Shorten the broker's window of duplicates, which is two minutes otherwise."""
    info = await platform.bus.api(f"STREAM.INFO.{TURN_QUEUE.name}", {})
    config = info["config"] | {"duplicate_window": int(REPEATS * NANOSECONDS)}
    await platform.bus.api(f"STREAM.UPDATE.{TURN_QUEUE.name}", config)


async def test_a_turn_without_a_key_is_cancelled_as_soon_as_its_caller_leaves(
    platform: Platform, fronts: tuple[Front, Front], http: httpx.AsyncClient
) -> None:
    params = keyed("wait", {"file": str(platform.file())})
    del params["_meta"][KEY]
    await leave(http, fronts[0], platform, params)
    cancel = (await platform.claim(CancelRequested)).claim
    assert isinstance(cancel, CancelRequested)
    assert cancel.reason == "the caller closed the stream"


async def test_an_invalid_key_is_refused_with_its_field(
    platform: Platform, fronts: tuple[Front, Front], http: httpx.AsyncClient
) -> None:
    for key in ("", "x" * 201, 7, None, ["a"], {"a": 1}):
        refused = await result(http, fronts[0], platform, keyed("say", {}, key))
        assert fault(refused) == {"code": "invalid_arguments", "retryable": False}, key
        assert f"_meta['{KEY}']" in refused["content"][0]["text"], key


async def test_a_key_may_be_any_text_of_up_to_200_characters(
    platform: Platform, fronts: tuple[Front, Front], http: httpx.AsyncClient
) -> None:
    for key in ("x" * 200, "ключ 🔑"):
        assert not (await result(http, fronts[0], platform, keyed("say", {}, key)))["isError"], key
