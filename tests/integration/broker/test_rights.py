"""For every service and every entry of the catalogue: allowed messages work, and all others are denied."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import SecretStr
from tests.integration.broker.guarded import ALPHA, BETA, Guarded, trying, worker
from tests.waiting import soon

from pallas_bus.access import Access, inbox_prefix, make_seed, public_key
from pallas_bus.connection import connect
from pallas_bus.reads import read, read_last, read_newest
from pallas_bus.streams import LIVE_PREFIX, bucket_subject, live_subject
from pallas_contracts.catalog import (
    AGENTS,
    BLOBS,
    BUCKETS,
    CLI,
    CONTRACTS,
    DATA_TEAM,
    FLEET,
    FLEET_TEAM,
    GATEWAY,
    PER_TEAM,
    PIPELINES,
    PIPELINES_TEAM,
    POOL,
    QUESTIONS,
    RESTORE,
    SPEAKERS,
    STREAMS,
    SUBMITTERS,
    TURN_CLAIM,
    TURN_LOG,
    TURN_OUTCOME,
    TURN_REQUESTED,
    WORKER,
)
from pallas_contracts.contract import Template
from pallas_contracts.errors import Unavailable

LETTER = "x"


@dataclass(frozen=True)
class CatalogueEntry:
    """One entry of the catalogue: who may publish it, and who may read it on which subject."""

    name: str
    template: Template
    publishers: tuple[str, ...]
    readers: tuple[str, ...]
    prefix: str = ""
    live: str | None = None

    def subject(self, team: str) -> str:
        """Its subject, for this team if it belongs to one."""
        ids = {name: team if name == "team" else LETTER for name in self.template.fields}
        return self.prefix + self.template.subject(**ids)

    def live_subject_for(self, team: str) -> str:
        """The subject on which it is published again live."""
        return self.subject(team) if self.live is None else live_subject(self.subject(team), self.live)

    @property
    def of_a_team(self) -> bool:
        """Whether its subject names one."""
        return "team" in self.template.fields


def everything() -> Iterator[CatalogueEntry]:
    """All entries of the catalogue."""
    for contract in CONTRACTS:
        live = contract.stream.live if contract.stream else None
        yield CatalogueEntry(contract.name, contract.template, contract.owners, contract.readers, live=live)
    for bucket in BUCKETS:
        prefix = bucket_subject(bucket, "")
        yield CatalogueEntry(f"bucket {bucket.name}", bucket.key, bucket.writers, bucket.readers, prefix)
    for blob in BLOBS:
        yield CatalogueEntry(blob.name, blob.template, blob.owners, ())
    for question in QUESTIONS:
        yield CatalogueEntry(question.name, question.template, question.askers, question.answerers)


ENTRIES = tuple(everything())
BY_NAME = {entry.name: entry for entry in ENTRIES}
KV_NAMES = frozenset(f"bucket {bucket.name}" for bucket in BUCKETS)
QUESTION_NAMES = frozenset(question.name for question in QUESTIONS)
TEAM_OF = {WORKER: ALPHA, POOL: DATA_TEAM, PIPELINES: PIPELINES_TEAM, FLEET: FLEET_TEAM}
"""The team whose turns each executor executes here."""
OWNED = {service: {f"KV_{bucket.name}" for bucket in BUCKETS if bucket.owner == service} for service in PER_TEAM}
"""The streams of buckets that a service of some teams owns, and so reads as a whole."""
each_service = pytest.mark.parametrize("service", SPEAKERS)
each_team = pytest.mark.parametrize("team", [ALPHA, BETA, DATA_TEAM, PIPELINES_TEAM, FLEET_TEAM])


def user_of(service: str) -> str:
    """The service's broker user; for workers that of team alpha."""
    return worker(ALPHA) if service == WORKER else service


def may_publish(entry: CatalogueEntry, service: str, team: str) -> bool:
    """Whether the catalogue allows it to publish the entry for that team.

    An executor publishes for its own team; one that also makes turns publishes what gateways publish for all.
    """
    makes = service in SUBMITTERS and GATEWAY in entry.publishers
    return service in entry.publishers and (makes or _is_served(entry, service, team))


def may_read(entry: CatalogueEntry, service: str, team: str) -> bool:
    """Whether the catalogue allows it to read the entry of that team, or to answer the question for it."""
    of_all = service not in PER_TEAM and entry.name not in QUESTION_NAMES
    return service in entry.readers and (of_all or _is_served(entry, service, team))


def _is_served(entry: CatalogueEntry, service: str, team: str) -> bool:
    return not entry.of_a_team or TEAM_OF.get(service, team) == team


def publisher_of(entry: CatalogueEntry, team: str) -> str:
    """A service that may publish the entry for that team."""
    return next(service for service in entry.publishers if may_publish(entry, service, team))


def subjects(team: str, *, live: bool) -> dict[str, str]:
    """The subjects of all entries for that team, by name; with `live` those of live messages."""
    found = {entry.name: entry.live_subject_for(team) if live else entry.subject(team) for entry in ENTRIES}
    if live:
        found |= {
            name: f"{LIVE_PREFIX}.kv.{bucket}.{found[name].removeprefix(f'$KV.{bucket}.')}"
            for name, bucket in ((name, name.removeprefix("bucket ")) for name in KV_NAMES)
        }
    return found


@each_service
@each_team
async def test_a_service_can_publish_exactly_what_the_catalogue_allows(
    guarded: Guarded, service: str, team: str
) -> None:
    where = subjects(team, live=False)
    async with trying(guarded.access(user_of(service)), service) as trier:
        denied = await trier.publish(*where.values())
    allowed = {name for name, subject in where.items() if subject not in denied}
    assert allowed == {entry.name for entry in ENTRIES if may_publish(entry, service, team)}


@each_service
@each_team
async def test_a_service_can_subscribe_to_exactly_what_the_catalogue_allows(
    guarded: Guarded, service: str, team: str
) -> None:
    where = {name: subject for name, subject in subjects(team, live=True).items() if BY_NAME[name].readers}
    async with trying(guarded.access(user_of(service)), service) as trier:
        denied = await trier.subscribe(*where.values())
    allowed = {name for name, subject in where.items() if subject not in denied}
    assert allowed == {entry.name for entry in ENTRIES if may_read(entry, service, team)}


@each_service
async def test_no_service_can_subscribe_to_subjects_before_their_messages_are_stored(
    guarded: Guarded, service: str
) -> None:
    stored = {entry.subject(ALPHA) for entry in ENTRIES if entry.live is not None or entry.name in KV_NAMES}
    async with trying(guarded.access(user_of(service)), service) as trier:
        assert await trier.subscribe(*stored) == stored


@each_service
async def test_only_readers_of_all_teams_can_read_a_whole_stream(guarded: Guarded, service: str) -> None:
    names = {stream.name: _readers(stream.name) for stream in STREAMS}
    names |= {f"KV_{bucket.name}": set(bucket.readers) for bucket in BUCKETS}
    verbs = ("DIRECT.GET", "STREAM.MSG.GET")
    where = {f"$JS.API.{verb}.{name}": readers for name, readers in names.items() for verb in verbs}
    async with trying(guarded.access(user_of(service)), service) as trier:
        denied = await trier.publish(*where)
    reads = {
        subject
        for subject, readers in where.items()
        if service in readers and (service not in PER_TEAM or subject.rpartition(".")[2] in OWNED[service])
    }
    assert set(where) - denied == (set(where) if service == CLI else reads)


def _readers(stream: str) -> set[str]:
    things = [thing for thing in (*CONTRACTS, *BLOBS) if thing.stream is not None and thing.stream.name == stream]
    return {reader for thing in things for reader in thing.readers}


@pytest.mark.parametrize("service", [service for service in SPEAKERS if service != RESTORE])  # it may delete streams
async def test_only_its_owner_can_declare_a_stream_and_only_its_removers_can_delete_from_it(
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


async def test_all_readers_of_a_message_get_it_live_and_from_its_stream(declared: Guarded) -> None:
    for contract in CONTRACTS:
        if contract.stream is None:
            continue
        entry = BY_NAME[contract.name]
        for reader in contract.readers:
            heard: asyncio.Queue[bytes] = asyncio.Queue()
            team = TEAM_OF.get(reader, ALPHA)
            publisher = publisher_of(entry, team)

            async def arrived(message: Any, into: asyncio.Queue[bytes] = heard) -> None:
                into.put_nowait(message.data)

            async with (
                connect(declared.access(user_of(publisher)), publisher) as owner,
                connect(declared.access(user_of(reader)), reader) as bus,
            ):
                # The last token is an id, or the like. Some streams take one message on each subject.
                subject = f"{entry.subject(team).rpartition('.')[0]}.{reader}"
                await bus.subscribe(live_subject(subject, entry.live) if entry.live is not None else subject, arrived)
                await asyncio.sleep(0)
                await bus.flush()
                body = f"{contract.name} for {reader}".encode()
                await owner.put(subject, body)
                assert await soon(heard.get()) == body
                # What executes turns reads them from its queue only.
                if not (reader in PER_TEAM and contract.name == "turn.requested"):
                    [*_, last] = [record async for record in read(bus, contract.stream.name, subject)]
                    assert last.data == body


async def test_all_readers_of_a_bucket_can_read_its_entries(declared: Guarded) -> None:
    for bucket in BUCKETS:
        entry = BY_NAME[f"bucket {bucket.name}"]
        for reader in bucket.readers:
            team = TEAM_OF.get(reader, ALPHA)
            publisher = publisher_of(entry, team)
            async with connect(declared.access(user_of(publisher)), publisher) as owner:
                await owner.put(entry.subject(team), b"{}")
            async with connect(declared.access(user_of(reader)), reader) as bus:
                records = await read_last(bus, f"KV_{bucket.name}", entry.subject(team))
                assert [record.data for record in records] == [b"{}"]


async def test_all_readers_of_objects_can_read_their_parts(declared: Guarded) -> None:
    for blob in BLOBS:
        for reader in blob.readers:
            subject = BY_NAME[blob.name].subject(TEAM_OF.get(reader, ALPHA))
            async with connect(declared.access(user_of(blob.owners[0])), blob.owners[0]) as owner:
                await owner.put(subject, b"part")
            async with connect(declared.access(user_of(reader)), reader) as bus:
                assert [record.data async for record in read(bus, blob.stream.name, subject)] == [b"part"]


@pytest.mark.parametrize(
    ("question", "answerer"), [(question, answerer) for question in QUESTIONS for answerer in question.answerers]
)
async def test_an_answerer_can_send_one_answer_to_the_asker_and_no_more(
    guarded: Guarded, question: Any, answerer: str
) -> None:
    subject = BY_NAME[question.name].subject(TEAM_OF.get(answerer, ALPHA))
    asker = question.askers[0]
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
async def test_no_service_can_subscribe_to_the_answers_for_another(guarded: Guarded, service: str) -> None:
    users = [user_of(service) for service in SPEAKERS] + [worker(BETA)]
    inboxes = {user: f"{inbox_prefix(public_key(guarded.seed(user)))}.>" for user in users}
    async with trying(guarded.access(user_of(service)), service) as trier:
        denied = await trier.subscribe(*inboxes.values(), "_INBOX.>", f"_INBOX.{service}.>", ">")
    assert inboxes[user_of(service)] not in denied
    assert denied == {*inboxes.values(), "_INBOX.>", f"_INBOX.{service}.>", ">"} - {inboxes[user_of(service)]}


@each_service
async def test_no_service_can_publish_in_place_of_the_broker(guarded: Guarded, service: str) -> None:
    spoken = {live_subject("pallas.v1.turn.outcome.alpha.x.x"), "pallas.v1.live.kv.agents.alpha.x", "_INBOX.any.one"}
    async with trying(guarded.access(user_of(service)), service) as trier:
        assert await trier.publish(*spoken) == spoken


def ways_to_another_team(own: str) -> Iterator[str]:
    """Requests by which a service of the team `own` could read turns of team beta, or disturb its workers."""
    turn = TURN_CLAIM.template.subject(team=BETA, agent=LETTER, turn=LETTER)
    for stream in STREAMS:
        yield from (f"$JS.API.{verb}.{stream.name}" for verb in ("DIRECT.GET", "STREAM.MSG.GET", "STREAM.INFO"))
        yield from (f"$JS.API.STREAM.{verb}.{stream.name}" for verb in ("PURGE", "MSG.DELETE", "SNAPSHOT", "DELETE"))
        yield from (f"$JS.API.CONSUMER.{verb}.{stream.name}" for verb in ("CREATE", "NAMES", "LIST"))
        yield from (f"$JS.API.CONSUMER.{verb}.{stream.name}.mine" for verb in ("CREATE", "DURABLE.CREATE"))
        yield f"$JS.API.DIRECT.GET.{stream.name}.{turn}"
        yield f"$JS.API.CONSUMER.CREATE.{stream.name}.mine.{turn}"
        yield f"$JS.API.CONSUMER.CREATE.{stream.name}.mine.pallas.v1.>"
        yield f"$JS.API.CONSUMER.CREATE.{stream.name}.mine.>"
    for verb in ("CREATE", "DURABLE.CREATE", "INFO", "DELETE", "MSG.NEXT", "PAUSE", "RESET"):
        yield f"$JS.API.CONSUMER.{verb}.TURN_QUEUE.{BETA}__bench"
    yield f"$JS.API.CONSUMER.CREATE.TURN_QUEUE.{BETA}__bench.pallas.v1.turn.requested.{own}.bench.*.*"
    yield f"$JS.API.CONSUMER.CREATE.TURN_QUEUE.{own}__bench.pallas.v1.turn.requested.{BETA}.bench.*.*"
    yield f"$JS.API.CONSUMER.CREATE.TURN_LOG.content-expiry.pallas.v1.turn.outcome.{own}.*.*"
    yield "$JS.API.CONSUMER.MSG.NEXT.TURN_LOG.content-expiry"
    yield "$JS.API.CONSUMER.DELETE.TURN_LOG.content-expiry"
    yield f"$JS.ACK.TURN_QUEUE.{BETA}__bench.1.1.1.1.1"
    yield "$JS.ACK.TURN_LOG.content-expiry.1.1.1.1.1"
    yield TURN_REQUESTED.template.subject(team=BETA, agent="bench", caller=LETTER, turn=LETTER)
    if own != FLEET_TEAM:  # the fleet makes the turns that are tasks
        yield TURN_REQUESTED.template.subject(team=own, agent="bench", caller=LETTER, turn=LETTER)
    yield bucket_subject(AGENTS, f"{BETA}.bench")


@pytest.mark.parametrize("service", sorted(PER_TEAM))
async def test_every_request_of_an_executor_for_turns_of_another_team_is_denied(guarded: Guarded, service: str) -> None:
    ways = set(ways_to_another_team(TEAM_OF[service]))
    async with trying(guarded.access(user_of(service)), service) as trier:
        assert await trier.publish(*ways) == ways
        live = {f"pallas.v1.live.{rest}" for rest in (">", "turn.>", "turn.*.*.*.*", "queue.>", "dead.>", "kv.>")}
        assert await trier.subscribe(*live) == live


async def test_a_worker_can_use_no_consumer_but_those_of_its_agents(guarded: Guarded) -> None:
    ways = {f"$JS.API.CONSUMER.CREATE.TURN_QUEUE.mine.pallas.v1.turn.requested.{ALPHA}.bench.*.*"}
    ways |= {f"$JS.API.CONSUMER.DELETE.{stream.name}.mine" for stream in STREAMS}
    async with trying(guarded.access(worker(ALPHA)), WORKER) as trier:
        assert await trier.publish(*ways) == ways


async def test_a_worker_reads_the_turns_of_its_team_and_of_no_other(declared: Guarded) -> None:
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
async def test_a_consumer_whose_filter_differs_from_its_request_subject_is_refused(
    declared: Guarded, config: dict[str, Any]
) -> None:
    own = TURN_OUTCOME.template.filter(team=ALPHA)
    body = {"stream_name": TURN_LOG.name, "config": {"name": "mine", "ack_policy": "none", **config}}
    async with connect(declared.access(worker(ALPHA)), WORKER) as bus:
        answer = await bus.request(f"$JS.API.CONSUMER.CREATE.{TURN_LOG.name}.mine.{own}", json.dumps(body).encode())
    assert "error" in json.loads(answer.data)


@pytest.mark.parametrize("who", ["nobody", "a stranger", "a password"])
async def test_the_broker_rejects_strangers_passwords_and_missing_credentials(guarded: Guarded, who: str) -> None:
    url = guarded.server.url
    access = Access(url, SecretStr(make_seed()) if who == "a stranger" else None)
    if who == "a password":
        access = Access(url.replace("nats://", "nats://agent-gateway:secret@"))
    with pytest.raises(Unavailable, match="rejects the credentials of agent-gateway"):
        async with connect(access, "agent-gateway", timeout=1.0):
            pass
