"""For every service and everything that is said: what the catalogue allows works, and everything else is denied."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import SecretStr
from tests.integration.broker.guarded import ALPHA, BETA, Guarded, trying, worker
from tests.waiting import soon

from pallas_bus.transport.access import (
    Access,
    inbox_prefix,
    make_seed,
    public_key,
)
from pallas_bus.transport.connection import connect
from pallas_bus.transport.reads import read, read_last, read_newest
from pallas_bus.transport.streams import LIVE_PREFIX, bucket_subject, live_subject
from pallas_contracts.catalog import (
    BLOBS,
    BUCKETS,
    CLI,
    CONTRACTS,
    PER_TEAM,
    QUESTIONS,
    SPEAKERS,
    STREAMS,
    TURN_CLAIM,
    TURN_LOG,
    TURN_OUTCOME,
    WORKER,
)
from pallas_contracts.contract import Template
from pallas_contracts.errors import Unavailable

LETTER = "x"


@dataclass(frozen=True)
class Said:
    """One thing of the catalogue as a test says it: who may say it, and who may hear it where."""

    name: str
    template: Template
    speakers: tuple[str, ...]
    hearers: tuple[str, ...]
    prefix: str = ""
    live: str | None = None

    def subject(self, team: str) -> str:
        """Where it is said, for a team where it belongs to one."""
        ids = {name: team if name == "team" else LETTER for name in self.template.fields}
        return self.prefix + self.template.subject(**ids)

    def heard_on(self, team: str) -> str:
        """Where it is heard as it is said."""
        return self.subject(team) if self.live is None else live_subject(self.subject(team), self.live)

    @property
    def of_a_team(self) -> bool:
        """Whether its subject names one."""
        return "team" in self.template.fields


def everything() -> Iterator[Said]:
    """All that is said, as the catalogue has it."""
    for contract in CONTRACTS:
        live = contract.stream.live if contract.stream else None
        yield Said(contract.name, contract.template, contract.owners, contract.readers, live=live)
    for bucket in BUCKETS:
        prefix = bucket_subject(bucket, "")
        yield Said(f"bucket {bucket.name}", bucket.key, bucket.writers, bucket.readers, prefix)
    for blob in BLOBS:
        yield Said(blob.name, blob.template, blob.owners, ())
    for question in QUESTIONS:
        yield Said(question.name, question.template, question.askers, (question.answerer,))


SAID = tuple(everything())
BY_NAME = {said.name: said for said in SAID}
KV_NAMES = frozenset(f"bucket {bucket.name}" for bucket in BUCKETS)
each_service = pytest.mark.parametrize("service", SPEAKERS)


def user_of(service: str) -> str:
    """Its user; of workers, the one of team alpha."""
    return worker(ALPHA) if service in PER_TEAM else service


def subjects(team: str, *, live: bool) -> dict[str, str]:
    """Where each thing is said, or heard, for that team, by name."""
    found = {said.name: said.heard_on(team) if live else said.subject(team) for said in SAID}
    if live:
        found |= {
            name: f"{LIVE_PREFIX}.kv.{bucket}.{found[name].removeprefix(f'$KV.{bucket}.')}"
            for name, bucket in ((name, name.removeprefix("bucket ")) for name in KV_NAMES)
        }
    return found


def theirs(said: Said, who: tuple[str, ...], service: str, team: str) -> bool:
    """Whether the catalogue allows it to this service; to a worker of alpha, nothing of another team."""
    return service in who and not (service in PER_TEAM and said.of_a_team and team != ALPHA)


@each_service
@pytest.mark.parametrize("team", [ALPHA, BETA])
async def test_a_service_says_what_the_catalogue_lets_it_say_and_nothing_else(
    guarded: Guarded, service: str, team: str
) -> None:
    where = subjects(team, live=False)
    async with trying(guarded.access(user_of(service)), service) as trier:
        denied = await trier.publish(*where.values())
    allowed = {name for name, subject in where.items() if subject not in denied}
    assert allowed == {said.name for said in SAID if theirs(said, said.speakers, service, team)}


@each_service
@pytest.mark.parametrize("team", [ALPHA, BETA])
async def test_a_service_hears_what_the_catalogue_lets_it_hear_and_nothing_else(
    guarded: Guarded, service: str, team: str
) -> None:
    where = {name: subject for name, subject in subjects(team, live=True).items() if BY_NAME[name].hearers}
    async with trying(guarded.access(user_of(service)), service) as trier:
        denied = await trier.subscribe(*where.values())
    allowed = {name for name, subject in where.items() if subject not in denied}
    assert allowed == {said.name for said in SAID if theirs(said, said.hearers, service, team) and name_is_heard(said)}


def name_is_heard(said: Said) -> bool:
    """Whether there is something to listen to."""
    return bool(said.hearers)


@each_service
async def test_nobody_hears_the_subjects_on_which_things_are_said_instead_of_those_of_what_was_stored(
    guarded: Guarded, service: str
) -> None:
    stored = {said.subject(ALPHA) for said in SAID if said.live is not None or said.name in KV_NAMES}
    async with trying(guarded.access(user_of(service)), service) as trier:
        assert await trier.subscribe(*stored) == stored


@each_service
async def test_a_stream_is_read_as_a_whole_only_by_whoever_reads_of_all_teams(guarded: Guarded, service: str) -> None:
    names = {stream.name: _readers(stream.name) for stream in STREAMS}
    names |= {f"KV_{bucket.name}": set(bucket.readers) for bucket in BUCKETS}
    verbs = ("DIRECT.GET", "STREAM.MSG.GET")
    where = {f"$JS.API.{verb}.{name}": readers for name, readers in names.items() for verb in verbs}
    async with trying(guarded.access(user_of(service)), service) as trier:
        denied = await trier.publish(*where)
    reads = {subject for subject, readers in where.items() if service in readers and service not in PER_TEAM}
    assert set(where) - denied == (set(where) if service == CLI else reads)


def _readers(stream: str) -> set[str]:
    things = [thing for thing in (*CONTRACTS, *BLOBS) if thing.stream is not None and thing.stream.name == stream]
    return {reader for thing in things for reader in thing.readers}


@each_service
async def test_a_stream_is_declared_by_its_owner_and_cleared_by_its_removers_alone(
    guarded: Guarded, service: str
) -> None:
    where: dict[str, bool] = {}
    for thing in (*STREAMS, *BUCKETS):
        name = thing.name if thing in STREAMS else f"KV_{thing.name}"
        where |= {f"$JS.API.STREAM.{verb}.{name}": thing.owner == service for verb in ("CREATE", "UPDATE")}
        where[f"$JS.API.STREAM.DELETE.{name}"] = False
    for stream in STREAMS:
        removes = service in stream.removers or service == CLI
        where |= {f"$JS.API.STREAM.{verb}.{stream.name}": removes for verb in ("PURGE", "MSG.DELETE")}
    async with trying(guarded.access(user_of(service)), service) as trier:
        denied = await trier.publish(*where)
    assert set(where) - denied == {subject for subject, allowed in where.items() if allowed}


async def test_what_is_said_is_heard_and_read_by_all_of_its_readers(declared: Guarded) -> None:
    for contract in CONTRACTS:
        if contract.stream is None:
            continue
        said = BY_NAME[contract.name]
        for reader in contract.readers:
            heard: asyncio.Queue[bytes] = asyncio.Queue()

            async def arrived(message: Any, into: asyncio.Queue[bytes] = heard) -> None:
                into.put_nowait(message.data)

            async with (
                connect(declared.access(user_of(contract.owners[0])), contract.owners[0]) as owner,
                connect(declared.access(user_of(reader)), reader) as bus,
            ):
                await bus.subscribe(said.heard_on(ALPHA), arrived)
                await asyncio.sleep(0)
                await bus.flush()
                body = f"{contract.name} for {reader}".encode()
                await owner.put(said.subject(ALPHA), body)
                assert await soon(heard.get()) == body
                # A worker takes its turns from their queue, and reads them nowhere else.
                if (reader, contract.name) != (WORKER, "turn.requested"):
                    [*_, last] = [record async for record in read(bus, contract.stream.name, said.subject(ALPHA))]
                    assert last.data == body


async def test_what_is_in_a_bucket_is_read_by_all_of_its_readers(declared: Guarded) -> None:
    for bucket in BUCKETS:
        subject = BY_NAME[f"bucket {bucket.name}"].subject(ALPHA)
        async with connect(declared.access(user_of(bucket.writers[0])), bucket.writers[0]) as owner:
            await owner.put(subject, b"{}")
        for reader in bucket.readers:
            async with connect(declared.access(user_of(reader)), reader) as bus:
                assert [record.data for record in await read_last(bus, f"KV_{bucket.name}", subject)] == [b"{}"]


async def test_parts_of_objects_are_read_by_all_of_their_readers(declared: Guarded) -> None:
    for blob in BLOBS:
        subject = BY_NAME[blob.name].subject(ALPHA)
        async with connect(declared.access(user_of(blob.owners[0])), blob.owners[0]) as owner:
            await owner.put(subject, b"part")
        for reader in blob.readers:
            async with connect(declared.access(user_of(reader)), reader) as bus:
                assert [record.data async for record in read(bus, blob.stream.name, subject)] == [b"part"]


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.name)
async def test_a_question_is_answered_and_the_answerer_can_say_nothing_else_to_whoever_asked(
    guarded: Guarded, question: Any
) -> None:
    subject = BY_NAME[question.name].subject(ALPHA)
    asker, answerer = question.askers[0], question.answerer
    async with (
        connect(guarded.access(user_of(asker)), asker) as asking,
        trying(guarded.access(user_of(answerer)), answerer) as answering,
    ):
        replies: asyncio.Queue[str] = asyncio.Queue()

        async def answer(message: Any) -> None:
            replies.put_nowait(message.reply)
            await message.respond(b"answer")

        await answering.bus.subscribe(subject, answer)
        await asyncio.sleep(0)
        await answering.bus.flush()
        assert (await asking.request(subject, b"question")).data == b"answer"
        again = await replies.get()
        assert await answering.publish(again) == {again}


@each_service
async def test_nobody_hears_the_answers_that_another_is_waiting_for(guarded: Guarded, service: str) -> None:
    users = [user_of(service) for service in SPEAKERS] + [worker(BETA)]
    inboxes = {user: f"{inbox_prefix(public_key(guarded.seed(user)))}.>" for user in users}
    async with trying(guarded.access(user_of(service)), service) as trier:
        denied = await trier.subscribe(*inboxes.values(), "_INBOX.>", f"_INBOX.{service}.>", ">")
    assert inboxes[user_of(service)] not in denied
    assert denied == {*inboxes.values(), "_INBOX.>", f"_INBOX.{service}.>", ">"} - {inboxes[user_of(service)]}


@each_service
async def test_nobody_may_speak_in_the_place_of_the_broker(guarded: Guarded, service: str) -> None:
    spoken = {live_subject("pallas.v1.turn.outcome.alpha.x.x"), "pallas.v1.live.kv.agents.alpha.x", "_INBOX.any.one"}
    async with trying(guarded.access(user_of(service)), service) as trier:
        assert await trier.publish(*spoken) == spoken


def ways_to_another_team() -> Iterator[str]:
    """Requests by which a worker could read the turns of another team, or hinder those who care for them."""
    turn = TURN_CLAIM.template.subject(team=BETA, agent=LETTER, turn=LETTER)
    for stream in STREAMS:
        yield from (f"$JS.API.{verb}.{stream.name}" for verb in ("DIRECT.GET", "STREAM.MSG.GET", "STREAM.INFO"))
        yield from (f"$JS.API.STREAM.{verb}.{stream.name}" for verb in ("PURGE", "MSG.DELETE", "SNAPSHOT", "DELETE"))
        yield from (f"$JS.API.CONSUMER.{verb}.{stream.name}" for verb in ("CREATE", "NAMES", "LIST"))
        yield from (f"$JS.API.CONSUMER.{verb}.{stream.name}.mine" for verb in ("CREATE", "DURABLE.CREATE", "DELETE"))
        yield f"$JS.API.DIRECT.GET.{stream.name}.{turn}"
        yield f"$JS.API.CONSUMER.CREATE.{stream.name}.mine.{turn}"
        yield f"$JS.API.CONSUMER.CREATE.{stream.name}.mine.pallas.v1.>"
        yield f"$JS.API.CONSUMER.CREATE.{stream.name}.mine.>"
    for verb in ("CREATE", "DURABLE.CREATE", "INFO", "DELETE", "MSG.NEXT", "PAUSE", "RESET"):
        yield f"$JS.API.CONSUMER.{verb}.TURN_QUEUE.{BETA}__bench"
    yield f"$JS.API.CONSUMER.CREATE.TURN_QUEUE.{BETA}__bench.pallas.v1.turn.requested.{ALPHA}.bench.*"
    yield f"$JS.API.CONSUMER.CREATE.TURN_QUEUE.{ALPHA}__bench.pallas.v1.turn.requested.{BETA}.bench.*"
    yield f"$JS.API.CONSUMER.CREATE.TURN_QUEUE.mine.pallas.v1.turn.requested.{ALPHA}.bench.*"
    yield f"$JS.API.CONSUMER.CREATE.TURN_LOG.content-expiry.pallas.v1.turn.outcome.{ALPHA}.*.*"
    yield "$JS.API.CONSUMER.MSG.NEXT.TURN_LOG.content-expiry"
    yield f"$JS.ACK.TURN_QUEUE.{BETA}__bench.1.1.1.1.1"
    yield "$JS.ACK.TURN_LOG.content-expiry.1.1.1.1.1"


async def test_a_worker_has_no_way_to_the_turns_of_another_team(guarded: Guarded) -> None:
    ways = set(ways_to_another_team())
    async with trying(guarded.access(worker(ALPHA)), WORKER) as trier:
        assert await trier.publish(*ways) == ways
        live = {f"pallas.v1.live.{rest}" for rest in (">", "turn.>", "turn.*.*.*.*", "queue.>", "dead.>", "kv.>")}
        assert await trier.subscribe(*live) == live


async def test_a_worker_reads_the_turns_of_its_team_and_not_those_of_another(declared: Guarded) -> None:
    async with connect(declared.access(worker(BETA)), WORKER) as other:
        await other.put(TURN_OUTCOME.template.subject(team=BETA, agent=LETTER, turn=LETTER), b"of beta")
    async with connect(declared.access(worker(ALPHA)), WORKER) as bus:
        own = TURN_OUTCOME.template.subject(team=ALPHA, agent=LETTER, turn="own")
        await bus.put(own, b"of alpha")
        newest = await read_newest(bus, TURN_LOG.name, own)
        assert newest is not None
        assert newest.data == b"of alpha"
        for subject in (
            TURN_OUTCOME.template.subject(team=BETA, agent=LETTER, turn=LETTER),
            TURN_OUTCOME.template.filter(),
        ):
            with pytest.raises(Unavailable):
                await read_last(bus, TURN_LOG.name, subject, timeout=0.5)


@pytest.mark.parametrize("config", [{"filter_subject": ">"}, {"filter_subjects": [f"pallas.v1.turn.outcome.{BETA}.>"]}])
async def test_a_consumer_with_another_filter_than_its_request_says_is_refused(
    declared: Guarded, config: dict[str, Any]
) -> None:
    own = TURN_OUTCOME.template.filter(team=ALPHA)
    body = {"stream_name": TURN_LOG.name, "config": {"name": "mine", "ack_policy": "none", **config}}
    async with connect(declared.access(worker(ALPHA)), WORKER) as bus:
        answer = await bus.request(f"$JS.API.CONSUMER.CREATE.{TURN_LOG.name}.mine.{own}", json.dumps(body).encode())
    assert "error" in json.loads(answer.data)


@pytest.mark.parametrize("who", ["nobody", "a stranger", "a password"])
async def test_nobody_else_is_let_in(guarded: Guarded, who: str) -> None:
    url = guarded.server.url
    access = Access(url, SecretStr(make_seed()) if who == "a stranger" else None)
    if who == "a password":
        access = Access(url.replace("nats://", "nats://agent-gateway:secret@"))
    with pytest.raises(Unavailable, match="rejects its credentials"):
        async with connect(access, "agent-gateway", timeout=1.0):
            pass
