"""Calls with an idempotency key become one turn, however often and wherever they are sent."""

import asyncio

import httpx
import pytest
from tests.e2e import wire
from tests.integration.agent_gateway.conftest import Platform
from tests.integration.agent_gateway.keyed import KEY, Fronts, fault, keyed, waiting
from tests.integration.real_parts import until
from tests.waiting import eventually, soon

from pallas_bus.streams import NANOSECONDS
from pallas_contracts.agents import Limits
from pallas_contracts.catalog import TURN_CONTENT, TURN_LOG, TURN_QUEUE
from pallas_contracts.turns import Claimed
from pallas_turns.claims import TurnRef
from pallas_turns.content import OFFLOAD_ABOVE
from pallas_turns.queue import ensure_consumer

REPEATS = 0.1


@pytest.fixture
async def fronts(platform: Platform, http: httpx.AsyncClient) -> Fronts:
    """Two gateways with a worker."""
    await platform.worker()
    return await Fronts.of(platform, http)


async def test_concurrent_calls_on_two_replicas_become_one_turn_with_the_same_answer(
    platform: Platform, fronts: Fronts
) -> None:
    params = keyed("effect", {"file": str(platform.file())})
    both = [fronts.start(number, params) for number in (0, 1)]
    await eventually(lambda: fronts.joined == 1)
    await platform.claim(Claimed)
    platform.files[0].touch()
    first, second = await asyncio.gather(*both)
    assert first == second
    assert first["content"][0]["text"] == "waited in attempt 1"
    assert fronts.effects == 1
    assert platform.counted("pallas_turns_total", outcome="completed") == 1


async def test_many_concurrent_calls_become_one_turn(platform: Platform, fronts: Fronts) -> None:
    params = keyed("effect", {"file": str(platform.file())})
    platform.files[0].touch()
    results = await asyncio.gather(*(fronts.start(n % 2, params) for n in range(20)))
    assert all(each == results[0] for each in results)
    assert fronts.effects == 1
    assert fronts.joined == 19
    accepted = {"team": platform.team, "agent": "bench"}
    assert sum(front.counted("pallas_turns_accepted_total", **accepted) for front in fronts.fronts) == 1


async def test_a_call_that_joins_a_turn_gets_its_earlier_events(platform: Platform, fronts: Fronts) -> None:
    params = keyed("effect", {"file": str(platform.file())})
    first = fronts.start(0, params)
    await eventually(lambda: fronts.effects == 1)
    request = wire.modern("tools/call", params)
    async with wire.posted(fronts.http, fronts.url(1), request) as stream:
        messages = stream.messages()
        lines = [(await soon(anext(messages)))["params"]["message"] for _ in range(2)]
        platform.files[0].touch()
        last = [message async for message in messages][-1]
    assert lines == ["bench/write: started", "waiting in attempt 1"]
    assert last["result"] == await first


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_finished_turn_is_answered_from_the_log(platform: Platform, fronts: Fronts, era: str) -> None:
    params, url = keyed("effect", {"file": str(platform.file())}), fronts.url(1)
    platform.files[0].touch()
    first = await fronts.call(0, params)
    if era == "modern":
        again = await fronts.call(1, params)
    else:
        session = await wire.shake_hands(fronts.http, url)
        again = (await soon(wire.answers(fronts.http, url, wire.legacy("tools/call", params, session))))[-1]["result"]
    if era == "modern":
        assert again == first
    assert again["content"] == first["content"]
    assert again["_meta"]["pallas/turn"] == first["_meta"]["pallas/turn"]
    assert fronts.effects == 1
    assert len([claimed for claimed in platform.claims.items if isinstance(claimed.claim, Claimed)]) == 1


async def test_an_expired_answer_is_reported_and_nothing_is_executed_again(platform: Platform, fronts: Fronts) -> None:
    params = keyed("effect", {"file": str(platform.file())})
    platform.files[0].touch()
    await fronts.call(0, params)
    ref = TurnRef(platform.team, "bench", (await platform.claim(Claimed)).turn_id)
    subject = ref.on(TURN_CONTENT.template)
    await platform.bus.api(f"STREAM.PURGE.{TURN_LOG.name}", {"filter": subject})
    facts = fault(await fronts.call(1, params))
    assert (facts["code"], facts["retryable"]) == ("content_expired", False)
    assert fronts.effects == 1


@pytest.mark.parametrize("when", ["waits", "runs", "over"])
async def test_a_key_with_other_arguments_is_refused(platform: Platform, http: httpx.AsyncClient, when: str) -> None:
    if when == "waits":
        await platform.publish()
        await ensure_consumer(platform.bus, platform.team, "bench", max_concurrency=None)
    else:
        await platform.worker()
    fronts = await Fronts.of(platform, http)
    first = fronts.start(0, keyed("wait", {"file": str(platform.file())}))
    if when == "waits":
        await until(lambda: waiting(platform, 1))
    else:
        await platform.claim(Claimed)
    if when == "over":
        platform.files[0].touch()
        await first
    facts = fault(await fronts.call(1, keyed("wait", {"file": str(platform.file())})))
    assert (facts["code"], facts["retryable"]) == ("key_reused", False)
    first.cancel()


async def test_of_two_concurrent_big_calls_with_one_key_one_is_executed_and_the_other_refused(fronts: Fronts) -> None:
    texts = ["x" * 2 * OFFLOAD_ABOVE, "y" * 2 * OFFLOAD_ABOVE]
    calls = (fronts.start(number, keyed("say", {"text": text})) for number, text in enumerate(texts))
    results = await asyncio.gather(*calls)
    refused = [each for each in results if each["isError"]]
    assert [fault(each)["code"] for each in refused] == ["key_reused"]
    [text] = [each["content"][0]["text"] for each in results if not each["isError"]]
    assert text in [f"{each} (attempt 1)" for each in texts]


async def test_the_same_key_of_another_caller_or_tool_makes_another_turn(platform: Platform, fronts: Fronts) -> None:
    elsewhere = httpx.AsyncHTTPTransport(local_address="127.0.0.2")
    async with httpx.AsyncClient(timeout=20, trust_env=False, transport=elsewhere) as other:
        mine = await fronts.call(0, keyed("say", {"text": "mine"}))
        theirs = await fronts.call(0, keyed("say", {"text": "theirs"}), other)
    platform.file().touch()
    waited = await fronts.call(0, keyed("wait", {"file": str(platform.files[0])}))
    assert [each["content"][0]["text"] for each in (mine, theirs, waited)] == [
        "mine (attempt 1)",
        "theirs (attempt 1)",
        "waited in attempt 1",
    ]
    assert fronts.joined == 0


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_turn_that_all_callers_have_left_runs_to_its_end_and_answers_its_key(
    platform: Platform, fronts: Fronts, era: str
) -> None:
    params, url = keyed("effect", {"file": str(platform.file())}), fronts.url(0)
    if era == "legacy":
        request = wire.legacy("tools/call", params, await wire.shake_hands(fronts.http, url))
        async with wire.posted(fronts.http, url, request) as stream:
            await anext(stream.messages())
    else:
        stays = fronts.start(1, params)
        await platform.claim(Claimed)
        await fronts.leave(0, params)
        stays.cancel()
        await asyncio.wait({stays})
    claimed = await platform.claim(Claimed)
    platform.files[0].touch()
    assert (await platform.outcome(claimed)).status == "completed"
    again = await fronts.call(1, params)
    assert (again["content"][0]["text"], fronts.effects) == ("waited in attempt 1", 1)
    assert not platform.cancels


async def test_a_handshake_era_caller_that_has_joined_cancels_by_its_notification(
    platform: Platform, fronts: Fronts
) -> None:
    url, params = fronts.url(1), keyed("wait", {"file": str(platform.file())})
    first = fronts.start(0, params)
    await platform.claim(Claimed)
    session = await wire.shake_hands(fronts.http, url)
    second = asyncio.create_task(
        wire.answers(fronts.http, url, wire.legacy("tools/call", params, session, request_id=7))
    )
    await eventually(lambda: fronts.joined == 1)
    body, headers = wire.legacy("notifications/cancelled", {"requestId": 7}, session, request_id=None)
    assert (await fronts.http.post(url, json=body, headers=headers)).status_code == 202
    assert fault(await first)["code"] == fault((await soon(second))[-1]["result"])["code"] == "cancelled"


@pytest.mark.usefixtures("asked_in_time")
async def test_a_waiting_turn_is_joined_at_a_full_queue_and_stays_in_it_without_callers(
    platform: Platform, http: httpx.AsyncClient
) -> None:
    await platform.publish(limits=Limits(max_queued=1))
    await ensure_consumer(platform.bus, platform.team, "bench", max_concurrency=None)
    fronts = await Fronts.of(platform, http)
    params = keyed("wait", {"file": str(platform.file())})
    first = fronts.start(0, params)
    await until(lambda: waiting(platform, 1))
    assert fault(await fronts.call(1, keyed("wait", {}, "another")))["code"] == "busy"
    second = fronts.start(1, params)
    await eventually(lambda: fronts.joined == 1)
    for call in (first, second):
        call.cancel()
    await asyncio.wait({first, second})
    platform.files[0].touch()
    await platform.worker()
    assert (await fronts.call(0, params))["content"][0]["text"] == "waited in attempt 1"


@pytest.mark.parametrize("when", ["waits", "runs", "over"])
async def test_a_turn_is_joined_even_after_the_broker_has_forgotten_its_message_id(
    alone: Platform, http: httpx.AsyncClient, when: str
) -> None:
    await alone.publish()
    await ensure_consumer(alone.bus, alone.team, "bench", max_concurrency=None)
    if when != "waits":
        await alone.worker()
    fronts = await Fronts.of(alone, http)
    await forget_repeats(alone)
    params = keyed("wait", {"file": str(alone.file())})
    first = fronts.start(0, params)
    if when == "over":
        alone.files[0].touch()
        await asyncio.wait({first})
    await asyncio.sleep(5 * REPEATS)  # the deduplication window itself has to pass
    again = fronts.start(1, params)
    await eventually(lambda: fronts.joined == 1)
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
    platform: Platform, fronts: Fronts
) -> None:
    params = keyed("wait", {"file": str(platform.file())})
    del params["_meta"][KEY]
    await fronts.leave(0, params)
    cancel = await platform.cancel()
    assert cancel.reason == "the caller closed the stream"


async def test_an_invalid_key_is_refused_with_its_field(fronts: Fronts) -> None:
    for key in ("", "x" * 201, 7, None, ["a"], {"a": 1}):
        refused = await fronts.call(0, keyed("say", {}, key))
        assert fault(refused) == {"code": "invalid_arguments", "retryable": False}, key
        assert f"_meta['{KEY}']" in refused["content"][0]["text"], key


async def test_a_key_may_be_any_text_of_up_to_200_characters(fronts: Fronts) -> None:
    for key in ("x" * 200, "ключ 🔑"):
        assert not (await fronts.call(0, keyed("say", {}, key)))["isError"], key
