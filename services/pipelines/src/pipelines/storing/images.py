"""Stored programs by owner and structural hash: those of stored pipelines, and drafts, which expire after a day."""

from collections.abc import Container
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

from pydantic import ValidationError

from pallas_bus.transport import kv
from pallas_bus.transport.connection import Bus
from pallas_bus.transport.reads import count_by_subject
from pallas_bus.transport.streams import bucket_subject, stream_name
from pallas_contracts.catalog import PIPELINE_DRAFTS, PIPELINE_IMAGES
from pallas_contracts.contract import Bucket
from pallas_contracts.errors import Conflict, Rejected
from pallas_contracts.message import Message, utc_now
from pallas_contracts.pipelines import PipelineImage

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
