"""The rights of each service at the broker: the subjects that it may publish and subscribe to.

They are derived from the catalogue, and from the requests that this package makes. The rights of a worker name its
teams, and for consumers its agents: a wildcard stands for a whole token, and the name of a consumer is one token. The
pool's agents are not known in advance, so it may use all consumers but those of the agents of workers.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pallas_bus.streams import LIVE_PREFIX, bucket_subject, live_subject, reads_scoped, stream_name
from pallas_contracts.catalog import (
    BACKUP,
    BLOBS,
    BUCKETS,
    CLI,
    CONSTELLATION,
    CONTRACTS,
    DATA_TEAM,
    EXECUTORS,
    FLEET,
    FLEET_AGENT,
    FLEET_TASKS_AGENT,
    FLEET_TEAM,
    GATEWAY,
    HOLDS,
    PER_TEAM,
    PIPELINES,
    PIPELINES_TEAM,
    POOL,
    PUBLISHED,
    QUESTIONS,
    RESTORE,
    STREAMS,
    SUBMITTERS,
    TURN_LOG,
    TURN_OUTCOME,
    TURN_QUEUE,
    TURN_REQUESTED,
)
from pallas_contracts.contract import Blob, Contract, Saved, Stream, Template
from pallas_turns.expiry import CONSUMER as CONTENT_EXPIRY
from pallas_turns.queue import consumer_name

type Hosted = Mapping[str, Collection[str]]
"""Agents by team."""

_OWN: Mapping[str, Hosted] = {
    POOL: {DATA_TEAM: ()},
    PIPELINES: {PIPELINES_TEAM: (CONSTELLATION, PUBLISHED)},
    FLEET: {FLEET_TEAM: (FLEET_AGENT, FLEET_TASKS_AGENT)},
}
"""Services with a team of their own. The agents of the pool are not known in advance."""

type _Stored = Contract[Any] | Blob

API = "$JS.API"


def saved_streams() -> tuple[str, ...]:
    """The streams that a backup has."""
    return tuple(stream_name(thing) for thing in (*STREAMS, *BUCKETS) if thing.saved is not Saved.NEVER)


@dataclass(frozen=True, slots=True)
class Rights:
    """Subjects, with wildcards. `never` overrides `publish`. With `answers`, replies to requests are allowed."""

    publish: tuple[str, ...]
    subscribe: tuple[str, ...]
    never: tuple[str, ...] = ()
    answers: bool = False


def rights_of(service: str, hosted: Hosted | None = None, *, of_workers: Hosted | None = None) -> Rights:
    """The rights of a service, without its inbox. A service of some teams gets rights for those in `hosted`.

    None stands for every team. `of_workers` are the agents of all workers, whose queues the pool must not use.
    Pipelines makes and follows turns of every team, as a gateway does, and executes those of its own.
    """
    if service == CLI:
        return _operator()
    hosted = _OWN.get(service, hosted)
    served = _scopes(service, hosted)
    scopes = served if service in PER_TEAM else _EVERY
    answered = [question for question in QUESTIONS if service in question.answerers]
    subscribe = {subject for question in answered for subject in _filters(question.template, served)}
    if answered:
        subscribe |= {"$SRV.*", f"$SRV.*.{service}", f"$SRV.*.{service}.*"}
    publish = {*_published(service, served), *_managed(service), *_read(service, scopes)}
    publish |= {*_consumed(service, hosted)}
    never = tuple(_consumers_of_others()) if service in PER_TEAM else ()
    if service == POOL:
        never += tuple(_queues_of({**(of_workers or {}), **_OWN[PIPELINES], **_OWN[FLEET]}))
    subscribe |= {*_subscribed(service, scopes)}
    return Rights(tuple(sorted(publish)), tuple(sorted(subscribe)), never, answers=bool(answered))


def _operator() -> Rights:
    """Operators may publish on every subject that no service publishes on: replays go to subjects of their choice."""
    own = {*_published(CLI, _EVERY)}
    stored = [(thing.template, thing.owners) for thing in (*CONTRACTS, *BLOBS)]
    published = {subject for template, _ in stored for subject in _filters(template, _EVERY)}
    published |= {bucket_subject(bucket, ">") for bucket in BUCKETS if CLI not in bucket.writers}
    published |= {subject for question in QUESTIONS for subject in _filters(question.template, _EVERY)}
    made = (f"{API}.STREAM.{verb}.*" for verb in ("CREATE", "UPDATE", "DELETE", "SNAPSHOT", "RESTORE"))
    used = (f"{API}.CONSUMER.{verb}.>" for verb in ("CREATE", "DURABLE.CREATE", "MSG.NEXT"))
    never = {*(published - own), *made, *used, f"{LIVE_PREFIX}.>", "$JS.ACK.>", "_INBOX.>"}
    return Rights((">",), (f"{LIVE_PREFIX}.>",), tuple(sorted(never)))


type _Scope = Mapping[str, str]
_EVERY: tuple[_Scope, ...] = ({},)


def _scopes(service: str, hosted: Hosted | None) -> tuple[_Scope, ...]:
    if service not in EXECUTORS or hosted is None:
        return _EVERY
    return tuple({"team": team} for team in sorted(hosted))


def _filters(template: Template, scopes: Iterable[_Scope]) -> Iterator[str]:
    for scope in scopes:
        yield template.filter(**{name: value for name, value in scope.items() if name in template.fields})


def _published(service: str, scopes: tuple[_Scope, ...]) -> Iterator[str]:
    """Where it publishes: messages, entries of buckets, questions.

    `scopes` are the teams that it serves; for others a service that makes turns writes what gateways write.
    """
    for thing in (*CONTRACTS, *BLOBS):
        if service in thing.owners:
            every = service in SUBMITTERS and GATEWAY in thing.owners
            yield from _filters(thing.template, _EVERY if every else scopes)
    for bucket in BUCKETS:
        if service in bucket.writers:
            yield from (bucket_subject(bucket, key) for key in _filters(bucket.key, scopes))
    for question in QUESTIONS:
        if service in question.askers:
            yield from _filters(question.template, scopes)


def _managed(service: str) -> Iterator[str]:
    """The API requests to declare, find, count and clear streams."""
    yield f"{API}.STREAM.NAMES"
    for thing in (*STREAMS, *BUCKETS):
        if thing.owner == service:
            yield from (f"{API}.STREAM.{verb}.{stream_name(thing)}" for verb in ("CREATE", "UPDATE"))
    for stream in STREAMS:
        if service in stream.removers:
            yield from (f"{API}.STREAM.{verb}.{stream.name}" for verb in ("PURGE", "MSG.DELETE"))
        if service in stream.counters:
            yield f"{API}.STREAM.INFO.{stream.name}"
    if service == BACKUP:
        for name in saved_streams():
            yield from (f"{API}.STREAM.SNAPSHOT.{name}", f"$JS.SNAPSHOT.ACK.{name}.>")
    if service == RESTORE:
        yield from _replaced()
    if service in TURN_QUEUE.counters:
        yield from (f"{API}.CONSUMER.INFO.{TURN_QUEUE.name}.*", f"{API}.CONSUMER.LIST.{TURN_QUEUE.name}")


def _replaced() -> Iterator[str]:
    """The API requests to replace all streams by those of a backup, under a hold that is not replaced."""
    for thing in (*STREAMS, *BUCKETS):
        verbs = ("INFO", "CREATE", "UPDATE") if thing is HOLDS else ("INFO", "DELETE")
        yield from (f"{API}.STREAM.{verb}.{stream_name(thing)}" for verb in verbs)
    for name in saved_streams():
        yield from (f"{API}.STREAM.RESTORE.{name}", f"$JS.SNAPSHOT.RESTORE.{name}.>")


def _read(service: str, scopes: tuple[_Scope, ...]) -> Iterator[str]:
    """The API requests to read: direct reads of whole streams, or for a service of some teams, scoped reads."""
    for name, template, subject in _readable(service, scopes):
        if not reads_scoped(service, name):
            yield from (f"{API}.{verb}.{name}" for verb in ("DIRECT.GET", "STREAM.MSG.GET", "STREAM.INFO"))
        elif template != TURN_REQUESTED.template:
            yield from (f"{API}.CONSUMER.CREATE.{name}.*.{subject}", f"{API}.CONSUMER.MSG.NEXT.{name}.*")


def _readable(service: str, scopes: tuple[_Scope, ...]) -> Iterator[tuple[str, Template, str]]:
    """Stream, template and subject of all stored messages that it may read."""
    stored: list[_Stored] = [*CONTRACTS, *BLOBS]
    for thing in stored:
        if thing.stream is not None and service in thing.readers:
            yield from ((thing.stream.name, thing.template, subject) for subject in _filters(thing.template, scopes))
    for bucket in BUCKETS:
        if service in bucket.readers:
            for key in _filters(bucket.key, scopes):
                yield stream_name(bucket), bucket.key, bucket_subject(bucket, key)


def _subscribed(service: str, scopes: tuple[_Scope, ...]) -> Iterator[str]:
    """Where it subscribes: to stored messages as they are republished, and to messages that are not stored."""
    for contract in CONTRACTS:
        if service not in contract.readers:
            continue
        if contract.stream is None:
            yield from _filters(contract.template, scopes)
        elif contract.stream.live is not None:
            yield from (live_subject(it, contract.stream.live) for it in _filters(contract.template, scopes))
    for stream in STREAMS:
        yield from _whole_nouns(service, stream)
    for bucket in BUCKETS:
        if service in bucket.readers:
            keys = _filters(bucket.key, scopes) if service in PER_TEAM else (">",)
            yield from (live_subject(f"kv.{bucket.name}.{key}") for key in keys)


def _whole_nouns(service: str, stream: Stream) -> Iterator[str]:
    """`turn.>` for a service that reads all messages of turns: one subscription keeps their order."""
    by_noun: dict[str, set[bool]] = {}
    for contract in CONTRACTS:
        if contract.stream is stream:
            may = service in contract.readers and service not in PER_TEAM
            by_noun.setdefault(contract.template.text.split(".")[2], set()).add(may)
    if stream.live is not None:
        yield from (live_subject(f"{noun}.>", stream.live) for noun, all_of in by_noun.items() if all_of == {True})


def _consumed(service: str, hosted: Hosted | None) -> Iterator[str]:
    """The API requests to pull from consumers: turns of the queue, and outcomes whose content may be due."""
    if service in EXECUTORS:
        for name, subject in _queues(service, hosted):
            yield f"{API}.CONSUMER.CREATE.{TURN_QUEUE.name}.{name}.{subject}"
            yield f"{API}.CONSUMER.MSG.NEXT.{TURN_QUEUE.name}.{name}"
            yield f"$JS.ACK.{TURN_QUEUE.name}.{name}.>"
    if service == POOL:
        yield f"{API}.CONSUMER.DELETE.{TURN_QUEUE.name}.*"  # of an agent that is forgotten
    if service == GATEWAY:
        yield f"{API}.CONSUMER.CREATE.{TURN_LOG.name}.{CONTENT_EXPIRY}.{TURN_OUTCOME.template.filter()}"
        yield f"{API}.CONSUMER.MSG.NEXT.{TURN_LOG.name}.{CONTENT_EXPIRY}"
        yield f"$JS.ACK.{TURN_LOG.name}.{CONTENT_EXPIRY}.>"
    if service in SUBMITTERS:
        yield f"$JS.ACK.{TURN_QUEUE.name}.>"  # it naks the deliveries of lost workers


def _queues(service: str, hosted: Hosted | None) -> Iterator[tuple[str, str]]:
    """The name and filter of the consumer of each hosted agent."""
    template = TURN_REQUESTED.template
    if service == POOL:
        yield "*", template.filter(team=DATA_TEAM)
    elif hosted is None:
        yield "*", template.filter()
    else:
        for team, agents in sorted(hosted.items()):
            for agent in sorted(agents):
                yield consumer_name(team, agent), template.filter(team=team, agent=agent)


def _consumers_of_others() -> Iterator[str]:
    """Consumers of other services with a known name, on streams where this service may create consumers."""
    yield f"{API}.CONSUMER.CREATE.{TURN_LOG.name}.{CONTENT_EXPIRY}.>"
    yield f"{API}.CONSUMER.MSG.NEXT.{TURN_LOG.name}.{CONTENT_EXPIRY}"


def _queues_of(hosted: Hosted) -> Iterator[str]:
    """Everything that can be done with the queues of these agents."""
    for name, _ in _queues("", hosted):
        yield f"{API}.CONSUMER.CREATE.{TURN_QUEUE.name}.{name}.>"
        yield from (f"{API}.CONSUMER.{verb}.{TURN_QUEUE.name}.{name}" for verb in ("MSG.NEXT", "DELETE"))
        yield f"$JS.ACK.{TURN_QUEUE.name}.{name}.>"
