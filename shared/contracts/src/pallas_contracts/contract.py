"""One entry of the catalogue: the subject of a message, its type, and the services that may publish it.

Subjects are built and parsed here and nowhere else; every id in one is checked as a token first.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

from pallas_contracts.errors import Rejected
from pallas_contracts.ids import check_token, may_stand_in_subject
from pallas_contracts.message import Message

_FIELD = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class Template:
    """A subject template such as `pallas.v1.turn.outcome.{team}.{agent}.{turn}`."""

    text: str

    @cached_property
    def fields(self) -> tuple[str, ...]:
        """The names in braces, in order."""
        return tuple(_FIELD.findall(self.text))

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(self.fields)

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        text = (
            re.escape(self.text).replace(r"\{", "{").replace(r"\}", "}").replace("pallas\\.v1", r"pallas\.(?:v1|s\d+)")
        )
        return re.compile("^" + _FIELD.sub(r"(?P<\1>[^.]+)", text) + "$")

    def subject(self, **ids: str) -> str:
        """Build a subject.

        Raises:
            Rejected: an id is missing, unknown or not a token.
        """
        if ids.keys() != self._names:
            raise Rejected(f"{self.text!r} takes {sorted(self.fields)}, not {sorted(ids)}")
        for name, value in ids.items():
            if may_stand_in_subject(value) is None:
                check_token(value, name)
        return self.text.format(**ids)

    def filter(self, **ids: str) -> str:
        """Build a subject in which every id that is not given is a `*`."""
        known = {name: check_token(value, name) for name, value in ids.items()}
        return self.text.format(**{name: known.get(name, "*") for name in self.fields})

    def parse(self, subject: str) -> dict[str, str] | None:
        """Return the ids in `subject`, or None when it is not of this template."""
        found = self._pattern.match(subject)
        return found.groupdict() if found else None


class Saved(IntEnum):
    """When a backup saves a stream or bucket, in this order. What refers to a turn is saved before the turn.

    The databases are saved between `CHANGES` and `TABLES`. The reasons are in docs/adr/0022.
    """

    NEVER = 0
    """It expires within a day or is made again: presence, probes, caches."""
    CHANGES = 1
    """Copies of what databases have, which send what is missing."""
    TABLES = 2
    """Entries, of which some refer to turns."""
    QUEUE = 3
    LOG = 4
    """Later than the queue: what became of a turn in the queue is known."""
    BEHIND = 5
    """What the queue and the log refer to."""


@dataclass(frozen=True)
class Stream:
    """A JetStream stream. Times are seconds.

    `owner` declares it; every other service waits until it exists. `live` is the prefix under which stored messages are
    republished. `removers` may remove messages from it, `counters` may ask how many there are. `saved` says when a
    backup saves it.
    """

    name: str
    subjects: tuple[str, ...]
    owner: str
    summary: str
    retention: str = "limits"
    max_age: float | None = None
    max_per_subject: int | None = None
    refuse_when_full: bool = False
    duplicate_window: float = 120.0
    live: str | None = None
    removers: tuple[str, ...] = ()
    counters: tuple[str, ...] = ()
    saved: Saved = Saved.BEHIND


@dataclass(frozen=True)
class Bucket[M: Message]:
    """A KV bucket whose keys follow `key` and whose values are `message`; `ttl` in seconds makes entries expire.

    Only `writers` may write it, and only `readers` may read it. `saved` says when a backup saves it. `reads` makes a
    value of a key's ids and its bytes; None: the bytes are validated as `message`. When it would have more than
    `most_bytes`, its oldest entries are removed.
    """

    name: str
    key: Template
    message: type[M]
    owner: str
    writers: tuple[str, ...]
    readers: tuple[str, ...]
    summary: str
    ttl: float | None = None
    most_bytes: int | None = None
    reads: Callable[[Mapping[str, str], bytes], M] | None = None
    saved: Saved = Saved.TABLES

    def read(self, key: str, data: bytes) -> M:
        """The value under a key.

        Raises:
            ValidationError: the bytes are not a valid value.
        """
        if self.reads is None:
            return self.message.model_validate_json(data)
        return self.reads(self.key.parse(key) or dict.fromkeys(self.key.fields, ""), data)


@dataclass(frozen=True)
class Contract[M: Message]:
    """One kind of message: only `owners` publish it and only `readers` read it. Without `stream` it may be lost."""

    name: str
    template: Template
    message: type[M]
    owners: tuple[str, ...]
    readers: tuple[str, ...]
    stream: Stream | None
    summary: str


@dataclass(frozen=True)
class Blob:
    """Bytes in a stream that are not a message. Their readers know from a message what they are."""

    name: str
    template: Template
    owners: tuple[str, ...]
    readers: tuple[str, ...]
    stream: Stream
    summary: str


@dataclass(frozen=True)
class Question[Q: Message, A: Message]:
    """A request with a reply. `askers` send it; one replica of one of `answerers` answers in `timeout` seconds."""

    name: str
    template: Template
    question: type[Q]
    answer: type[A]
    askers: tuple[str, ...]
    answerers: tuple[str, ...]
    timeout: float
    summary: str
