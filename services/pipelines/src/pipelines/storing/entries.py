"""Stored pipelines by their full names: read from a copy, changed by compare-and-set."""

from collections.abc import Callable, Container, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from pydantic import ValidationError

from pallas_bus import kv
from pallas_bus.connection import Bus
from pallas_bus.kv import Table
from pallas_bus.reads import count_by_subject
from pallas_bus.streams import bucket_subject, stream_name
from pallas_contracts.catalog import PIPELINE_DRAFTS, PIPELINE_IMAGES, PIPELINE_NAMES
from pallas_contracts.contract import Bucket
from pallas_contracts.errors import Conflict, Rejected, Unavailable
from pallas_contracts.message import Message, utc_now
from pallas_contracts.pipelines import PipelineImage, StoredPipeline
from pipelines.storing.namespaces import MARK_SECONDS, SHARED, FullName, digest_of

_MOST_TRIES = 20

type Change = Callable[[StoredPipeline | None], StoredPipeline | None]
"""What becomes of an entry; None stands for none. It may refuse by raising."""


def expired(entry: StoredPipeline, now: datetime | None = None) -> bool:
    """Whether a temporary pipeline's time is over."""
    return entry.expires_at is not None and entry.expires_at <= (now or utc_now())


def image_owner(entry: StoredPipeline) -> str:
    """The owner of the programs of an entry, as a token."""
    return SHARED if entry.namespace == SHARED else entry.owner


@dataclass
class Entries:
    """All stored pipelines. `table` is a copy that may be a moment old, but has what this process has changed."""

    bus: Bus
    table: Table[StoredPipeline]
    _kept: dict[str, dict[str, StoredPipeline]] = field(default_factory=dict[str, dict[str, StoredPipeline]])
    _owners: dict[str, str] = field(default_factory=dict[str, str])
    _published: dict[str, StoredPipeline] = field(default_factory=dict[str, StoredPipeline])

    def __post_init__(self) -> None:
        self.table.on_change(self._changed)

    def _changed(self, key: str, entry: StoredPipeline | None) -> None:
        if (before := self._owners.pop(key, None)) is not None:
            del self._kept[before][key]
            if not self._kept[before]:
                del self._kept[before]
        self._published.pop(key, None)
        if entry is not None:
            self._owners[key] = owner = image_owner(entry)
            self._kept.setdefault(owner, {})[key] = entry
            if entry.published is not None:
                self._published[key] = entry

    def everything(self) -> list[StoredPipeline]:
        """All entries, by name."""
        return _listed(self.table.values())

    def of_owners(self, *owners: str) -> list[StoredPipeline]:
        """The entries whose programs these own, by name."""
        return _listed(entry for owner in owners for entry in self._kept.get(owner, {}).values())

    def published(self) -> list[StoredPipeline]:
        """The entries that are published, by name."""
        return _listed(self._published.values())

    async def get(self, name: FullName | str) -> StoredPipeline | None:
        """The entry of a full name as it is now.

        Raises:
            Unavailable: the broker does not answer.
        """
        found = await kv.get(self.bus, PIPELINE_NAMES, name=digest_of(str(name)))
        return found if found is not None and not expired(found) else None

    async def change(self, name: FullName | str, change: Change) -> StoredPipeline | None:
        """Change an entry; if another one changes it at the same time, `change` is called again.

        Raises:
            Rejected: it would be too large (`too_large`).
            Unavailable: the broker does not answer, or too many change it.
        """
        key = digest_of(str(name))
        for _ in range(_MOST_TRIES):
            stored, position = await kv.get_entry(self.bus, PIPELINE_NAMES, name=key)
            wanted = change(stored if stored is not None and not expired(stored) else None)
            if wanted == stored:
                return wanted
            if wanted is not None:
                check_size(self.bus, PIPELINE_NAMES, wanted)
            try:
                if wanted is None:
                    position = await kv.delete(self.bus, PIPELINE_NAMES, after=position, marked=MARK_SECONDS, name=key)
                else:
                    position = await kv.put(self.bus, PIPELINE_NAMES, wanted, after=position, name=key)
            except Conflict:
                continue
            self.table.changed(key, wanted, position)
            return wanted
        raise Unavailable("The pipeline is being changed by many at the same time.", code="busy")


def _listed(entries: Iterable[StoredPipeline]) -> list[StoredPipeline]:
    now = utc_now()
    return sorted((entry for entry in entries if not expired(entry, now)), key=lambda entry: entry.name)


MOST_DRAFTS = 1000
"""Drafts of one owner in a day; further ones are not kept."""

_FRESH = timedelta(seconds=600)
"""A program is stored before the name that refers to it, so one that no name refers to is only removed after this."""

_ENVELOPE = 1024
"""Bytes of a message besides its value."""

type Key = tuple[str, str]
"""Owner and structural hash."""


@dataclass(frozen=True)
class Images:
    """The programs in the two buckets."""

    bus: Bus

    async def keep(self, owner: str, image: PipelineImage) -> None:
        """Store a program for a name, which has to be stored soon.

        Raises:
            Rejected: it is too large (`too_large`).
            Unavailable: the broker does not answer.
        """
        fresh = image.model_copy(update={"compiled_at": utc_now()})
        check_size(self.bus, PIPELINE_IMAGES, fresh)
        await kv.put(self.bus, PIPELINE_IMAGES, fresh, owner=owner, hash=image.structural_hash)

    async def keep_draft(self, owner: str, image: PipelineImage) -> bool:
        """Keep a program for a day. False: there are too many of this owner.

        Raises:
            Rejected: it is too large (`too_large`).
            Unavailable: the broker does not answer.
        """
        if len(await _keys(self.bus, PIPELINE_DRAFTS, owner=owner)) >= MOST_DRAFTS:
            return False
        check_size(self.bus, PIPELINE_DRAFTS, image)
        await kv.put(self.bus, PIPELINE_DRAFTS, image, owner=owner, hash=image.structural_hash)
        return True

    async def get(self, owner: str, structural_hash: str, *, drafts: bool = False) -> PipelineImage | None:
        """A program of an owner; with `drafts` also one that has no name.

        Raises:
            Unavailable: the broker does not answer.
        """
        found = await kv.get(self.bus, PIPELINE_IMAGES, owner=owner, hash=structural_hash)
        if found is None and drafts:
            found = await kv.get(self.bus, PIPELINE_DRAFTS, owner=owner, hash=structural_hash)
        return found

    async def forget_draft(self, owner: str, structural_hash: str) -> None:
        """Remove a draft. One that does not exist is no error.

        Raises:
            Unavailable: the broker does not answer.
        """
        await kv.delete(self.bus, PIPELINE_DRAFTS, owner=owner, hash=structural_hash)

    async def forget(self, *keys: Key, at_once: bool = False) -> None:
        """Remove programs to which no name refers; without `at_once` only those that are not fresh.

        Raises:
            Unavailable: the broker does not answer.
        """
        for owner, structural_hash in keys:
            image, position = await kv.get_entry(self.bus, PIPELINE_IMAGES, owner=owner, hash=structural_hash)
            if image is not None and (at_once or image.compiled_at < utc_now() - _FRESH):
                with suppress(Conflict):  # it has just been stored again
                    await kv.delete(
                        self.bus, PIPELINE_IMAGES, after=position, marked=60, owner=owner, hash=structural_hash
                    )

    async def forget_others(self, needed: Container[Key]) -> None:
        """Remove the programs of all owners that are not needed and not fresh.

        Raises:
            Unavailable: the broker does not answer.
        """
        await self.forget(*(key for key in await _keys(self.bus, PIPELINE_IMAGES) if key not in needed))


def check_size[M: Message](bus: Bus, bucket: Bucket[M], value: M) -> None:
    """Check that a value can be stored, and read again.

    Raises:
        Rejected: it is too large (`too_large`).
    """
    data = value.model_dump_json().encode()
    with suppress(ValidationError):
        if len(data) <= bus.max_payload - _ENVELOPE:
            bucket.message.model_validate_json(data)
            return
    raise Rejected("The program is too large to be stored: it has too many inputs, outputs or calls.", code="too_large")


async def _keys(bus: Bus, bucket: Bucket[PipelineImage], **ids: str) -> list[Key]:
    """The keys in a bucket, also those of entries that were removed."""
    found = await count_by_subject(bus, stream_name(bucket), bucket_subject(bucket, bucket.key.filter(**ids)))
    keys = (subject.rsplit(".", 2)[-2:] for subject in found)
    return [(owner, structural_hash) for owner, structural_hash in keys]
