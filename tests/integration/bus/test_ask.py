"""Questions over the bus: one answer, or an error of the same kind on both sides."""

import asyncio
import uuid
from dataclasses import replace

import pytest
from tests.conftest import Connecting
from tests.waiting import soon

from pallas_bus.ask import Answer, answer, answering, ask
from pallas_bus.connection import Bus
from pallas_contracts.catalog import CHECK_HEALTH
from pallas_contracts.contract import Question, Template
from pallas_contracts.errors import Conflict, Denied, NotFound, PallasError, Rejected, Unavailable
from pallas_contracts.health import AgentHealth, HealthAsked
from pallas_contracts.message import utc_now

type HealthQuestion = Question[HealthAsked, AgentHealth]

ASKED = HealthAsked(team="t", agent="a")
HEALTH = AgentHealth(team="t", agent="a", status="ok", interval=15.0, at=utc_now())


@pytest.fixture
def question() -> HealthQuestion:
    """A question that no other test asks."""
    return replace(CHECK_HEALTH, template=Template(f"pallas.v1.t{uuid.uuid4().hex[:12]}.{{team}}.{{agent}}"))


async def answered_by(bus: Bus, question: HealthQuestion, handler: Answer[HealthAsked, AgentHealth]) -> None:
    await answer(bus, await answering(bus), question, handler)
    await bus.client.flush()


async def test_a_question_is_answered(bus: Connecting, question: HealthQuestion) -> None:
    async def handler(asked: HealthAsked) -> AgentHealth:
        return HEALTH.model_copy(update={"agent": asked.agent})

    await answered_by(await bus("health-monitor"), question, handler)
    answered = await ask(await bus("agent-gateway"), question, ASKED, team="t", agent="a")
    assert answered == HEALTH


@pytest.mark.parametrize("kind", [Rejected, NotFound, Denied, Conflict, Unavailable])
async def test_an_error_keeps_its_kind_code_and_message(
    bus: Connecting, question: HealthQuestion, kind: type[PallasError]
) -> None:
    async def handler(asked: HealthAsked) -> AgentHealth:
        raise kind("no such\nthing: Übung", code="own_code")

    await answered_by(await bus("health-monitor"), question, handler)
    with pytest.raises(kind) as refused:
        await ask(await bus("agent-gateway"), question, ASKED, team="t", agent="a")
    assert (refused.value.code, refused.value.message) == ("own_code", "no such thing: Übung")


async def test_an_error_raised_from_another_keeps_its_kind(bus: Connecting, question: HealthQuestion) -> None:
    async def handler(asked: HealthAsked) -> AgentHealth:
        try:
            raise NotFound("gone", code="agent_gone")
        except NotFound as error:
            raise RuntimeError("wrapped") from error

    await answered_by(await bus("health-monitor"), question, handler)
    with pytest.raises(NotFound) as refused:
        await ask(await bus("agent-gateway"), question, ASKED, team="t", agent="a")
    assert refused.value.code == "agent_gone"


async def test_a_bug_in_the_answerer_is_an_internal_error_without_details(
    bus: Connecting, question: HealthQuestion
) -> None:
    async def handler(asked: HealthAsked) -> AgentHealth:
        raise KeyError("a secret")

    await answered_by(await bus("health-monitor"), question, handler)
    with pytest.raises(PallasError) as refused:
        await ask(await bus("agent-gateway"), question, ASKED, team="t", agent="a")
    assert refused.value.code == "internal"
    assert "secret" not in refused.value.message


async def test_a_validation_error_inside_the_answerer_is_not_reported_as_a_bad_question(
    bus: Connecting, question: HealthQuestion
) -> None:
    async def handler(asked: HealthAsked) -> AgentHealth:
        return AgentHealth.model_validate({"status": "a secret"})

    await answered_by(await bus("health-monitor"), question, handler)
    with pytest.raises(PallasError) as refused:
        await ask(await bus("agent-gateway"), question, ASKED, team="t", agent="a")
    assert (refused.value.kind, refused.value.code) == ("internal", "internal")
    assert "secret" not in refused.value.message


async def test_an_unreadable_question_is_rejected(bus: Connecting, question: HealthQuestion) -> None:
    async def handler(asked: HealthAsked) -> AgentHealth:
        return HEALTH

    await answered_by(await bus("health-monitor"), question, handler)
    gateway = await bus("agent-gateway")
    reply = await gateway.request(question.template.subject(team="t", agent="a"), b"{}")
    assert (reply.headers or {})["Nats-Service-Error-Code"] == "rejected:undecodable"


async def test_a_question_without_an_answerer_is_unavailable_at_once(bus: Connecting, question: HealthQuestion) -> None:
    gateway = await bus("agent-gateway")
    with pytest.raises(Unavailable) as refused:
        await soon(ask(gateway, question, ASKED, team="t", agent="a", timeout=10.0), within=2.0)
    assert refused.value.code == "no_responders"


async def test_a_late_answer_is_unavailable(bus: Connecting, question: HealthQuestion) -> None:
    async def handler(asked: HealthAsked) -> AgentHealth:
        await asyncio.Event().wait()
        return HEALTH

    await answered_by(await bus("health-monitor"), question, handler)
    with pytest.raises(Unavailable):
        await ask(await bus("agent-gateway"), question, ASKED, team="t", agent="a", timeout=0.1)


async def test_a_slow_answer_does_not_delay_another(bus: Connecting, question: HealthQuestion) -> None:
    release = asyncio.Event()

    async def handler(asked: HealthAsked) -> AgentHealth:
        if asked.agent == "slow":
            await release.wait()
        return HEALTH.model_copy(update={"agent": asked.agent})

    await answered_by(await bus("health-monitor"), question, handler)
    gateway = await bus("agent-gateway")
    slow = asyncio.create_task(
        ask(gateway, question, HealthAsked(team="t", agent="slow"), team="t", agent="slow", timeout=10.0)
    )
    quick = await ask(gateway, question, HealthAsked(team="t", agent="quick"), team="t", agent="quick", timeout=5.0)
    assert (quick.agent, slow.done()) == ("quick", False)
    release.set()
    assert (await soon(slow)).agent == "slow"


async def test_an_answer_that_cannot_be_decoded_is_an_error_with_a_code(
    bus: Connecting, question: HealthQuestion
) -> None:
    async def handler(asked: HealthAsked) -> HealthAsked:
        return asked

    monitor = await bus("health-monitor")
    other = Question(question.name, question.template, HealthAsked, HealthAsked, (), ("health-monitor",), 1.0, "")
    await answer(monitor, await answering(monitor), other, handler)
    with pytest.raises(PallasError, match=r"the answer to health\.check cannot be decoded") as refused:
        await ask(await bus("agent-gateway"), question, ASKED, team="t", agent="a")
    assert (refused.value.code, type(refused.value)) == ("undecodable", PallasError)


async def test_of_several_answerers_one_answers(bus: Connecting, question: HealthQuestion) -> None:
    answered_by_names: list[str] = []
    for name in ("one", "two"):

        async def handler(asked: HealthAsked, name: str = name) -> AgentHealth:
            answered_by_names.append(name)
            return HEALTH

        await answered_by(await bus("health-monitor", instance=name), question, handler)
    gateway = await bus("agent-gateway")
    for _ in range(20):
        await ask(gateway, question, ASKED, team="t", agent="a")
    assert len(answered_by_names) == 20


async def test_an_answerer_may_answer_for_one_agent_alone(bus: Connecting, question: HealthQuestion) -> None:
    async def handler(asked: HealthAsked) -> AgentHealth:
        return HEALTH

    monitor, gateway = await bus("health-monitor"), await bus("agent-gateway")
    await answer(monitor, await answering(monitor), question, handler, team="t", agent="mine")
    await monitor.client.flush()
    await ask(gateway, question, ASKED, team="t", agent="mine")
    with pytest.raises(Unavailable):
        await ask(gateway, question, ASKED, team="t", agent="other")
