"""One entry of the catalogue: where a message goes, what it is, who may say it.

Subjects are built and parsed here and nowhere else; every id in one is checked as a token first.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from pallas_contracts.errors import Rejected
from pallas_contracts.ids import check_token
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
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(
            "^" + _FIELD.sub(r"(?P<\1>[^.]+)", re.escape(self.text).replace(r"\{", "{").replace(r"\}", "}")) + "$"
        )

    def subject(self, **ids: str) -> str:
        """Build a subject.

        Raises:
            Rejected: an id is missing, unknown or not a token.
        """
        if set(ids) != set(self.fields):
            raise Rejected(f"{self.text!r} takes {sorted(self.fields)}, not {sorted(ids)}")
        return self.text.format(**{name: check_token(value, name) for name, value in ids.items()})

    def filter(self, **ids: str) -> str:
        """Build a subject in which every id that is not given is a `*`."""
        known = {name: check_token(value, name) for name, value in ids.items()}
        return self.text.format(**{name: known.get(name, "*") for name in self.fields})

    def parse(self, subject: str) -> dict[str, str] | None:
        """Return the ids in `subject`, or None when it is not of this template."""
        found = self._pattern.match(subject)
        return found.groupdict() if found else None


@dataclass(frozen=True)
class Stream:
    """A JetStream stream. Times are seconds.

    `owner` declares it; every other service waits for it. `live` names the prefix under which stored messages are
    published again to whoever listens right now. `removers` take messages out of it, `counters` ask how many there are.
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


@dataclass(frozen=True)
class Bucket[M: Message]:
    """A KV bucket whose keys follow `key` and whose values are `message`; `ttl` in seconds makes entries expire.

    Only `writers` may write it and only `readers` read it. `reads` makes a value of a key's ids and its bytes
    where that is more than to validate them.
    """

    name: str
    key: Template
    message: type[M]
    owner: str
    writers: tuple[str, ...]
    readers: tuple[str, ...]
    summary: str
    ttl: float | None = None
    reads: Callable[[Mapping[str, str], bytes], M] | None = None

    def read(self, key: str, data: bytes) -> M:
        """The value under a key.

        Raises:
            ValidationError: it is none.
        """
        if self.reads is None:
            return self.message.model_validate_json(data)
        return self.reads(self.key.parse(key) or dict.fromkeys(self.key.fields, ""), data)


@dataclass(frozen=True)
class Contract[M: Message]:
    """One thing that is said: only `owners` say it and only `readers` hear it; no `stream` means lossy on purpose."""

    name: str
    template: Template
    message: type[M]
    owners: tuple[str, ...]
    readers: tuple[str, ...]
    stream: Stream | None
    summary: str


@dataclass(frozen=True)
class Blob:
    """Bytes that are stored as they are, not a message: their readers know from a message what they are."""

    name: str
    template: Template
    owners: tuple[str, ...]
    readers: tuple[str, ...]
    stream: Stream
    summary: str


@dataclass(frozen=True)
class Question[Q: Message, A: Message]:
    """Something that is asked and answered at once: `answerers` listen on the subject as one group."""

    name: str
    template: Template
    question: type[Q]
    answer: type[A]
    askers: tuple[str, ...]
    answerer: str
    timeout: float
    summary: str
