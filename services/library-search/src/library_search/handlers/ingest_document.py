"""Ingests a file: reads it, cuts it into chunks and indexes them. The same file again changes nothing."""

import asyncio
import hashlib
import logging
import time
from dataclasses import dataclass
from pathlib import PurePosixPath

from library_search.reading.formats import READER, kind_of
from library_search.reading.reader import Reader
from library_search.store.documents import Contents, Documents, Place, Status, no_library
from library_search.tables import Library

log = logging.getLogger(__name__)

KNOWN_WITHIN = 2.0
"""Seconds to wait for an unknown library: it may just have been created, and its event be on the way."""
_POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Ingested:
    """The result of ingesting a file."""

    document: str
    status: Status
    chunks: int


class IngestDocument:
    """Ingests files, at most `at_once` of them at a time."""

    def __init__(self, documents: Documents, reader: Reader, *, at_once: int = 2) -> None:
        self._documents = documents
        self._reader = reader
        self._slots = asyncio.Semaphore(at_once)

    async def find_library(self, uid: str) -> Library:
        """Find a library by its uid. Waits a moment for one that was just created.

        Raises:
            NotFound: there is no such library.
            Unavailable: Postgres cannot be used right now.
        """
        until = time.monotonic() + KNOWN_WITHIN
        while (library := await self._documents.library(uid)) is None:
            if time.monotonic() > until:
                raise no_library(uid)
            await asyncio.sleep(_POLL_SECONDS)
        return library

    async def ingest(self, place: Place, content: bytes) -> Ingested:
        """Ingest a file.

        Raises:
            NotFound: there is no such library.
            Rejected: the kind of file is not supported, or the file cannot be read.
            Unavailable: Postgres cannot be used right now, or no process can be started.
        """
        kind = kind_of(place.path)
        digest = f"{READER}:{hashlib.sha256(content).hexdigest()}"
        found = await self._documents.find(place)
        if found is not None and found[1] == digest:
            return Ingested(found[0], "unchanged", found[2])
        async with self._slots:
            read = await self._reader.read(content, kind)
            title = (read.title or PurePosixPath(place.path).stem)[:300]
            contents = Contents(title, kind, digest, len(content), read.text, read.chunks)
            document = await self._documents.put(place, contents)
        status: Status = "updated" if found else "created"
        facts = {"library": place.library, "document": document, "chunks": len(read.chunks), "status": status}
        log.info("document_ingested", extra=facts)
        return Ingested(document, status, len(read.chunks))
