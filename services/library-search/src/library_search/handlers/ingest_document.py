"""Takes a file into a library: read, cut into chunks, indexed. The same file again changes nothing."""

import asyncio
import hashlib
import logging
import time
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import PurePosixPath

from library_search.adapters.documents import Contents, Documents, Done, Place, no_library
from library_search.reading.chunks import chunks_of
from library_search.reading.files import PDF, READER, kind_of, read_file

log = logging.getLogger(__name__)

KNOWN_WITHIN = 2.0
"""Seconds for which a library may be unknown here after it was made: the event is on its way."""
_LOOK_AGAIN = 0.1


@dataclass(frozen=True, slots=True)
class Ingested:
    """What has become of a file."""

    document: str
    status: Done
    chunks: int


class IngestDocument:
    """Takes files. Only `at_once` of them are read at the same time, and only one PDF: it may use much memory."""

    def __init__(self, documents: Documents, *, at_once: int = 2) -> None:
        self._documents = documents
        self._slots = asyncio.Semaphore(at_once)
        self._pdf = asyncio.Lock()

    async def check_library(self, library: str) -> None:
        """Wait for a library that may have been made a moment ago.

        Raises:
            NotFound: there is no such library.
            Unavailable: Postgres cannot be used right now.
        """
        until = time.monotonic() + KNOWN_WITHIN
        while not await self._documents.has_library(library):
            if time.monotonic() > until:
                raise no_library(library)
            await asyncio.sleep(_LOOK_AGAIN)

    async def ingest(self, place: Place, content: bytes) -> Ingested:
        """Take a file.

        Raises:
            NotFound: there is no such library.
            Rejected: files of this kind are not read, or this one cannot be.
            Unavailable: Postgres cannot be used right now, or no process can be started.
        """
        kind = kind_of(place.path)
        digest = f"{READER}:{hashlib.sha256(content).hexdigest()}"
        found = await self._documents.find(place)
        if found is not None and found[1] == digest:
            return Ingested(found[0], "unchanged", found[2])
        async with self._slots:
            async with self._pdf if kind == PDF else nullcontext():
                read = await read_file(content, kind)
            chunks = await asyncio.to_thread(chunks_of, read)
            title = (read.title or PurePosixPath(place.path).stem)[:300]
            contents = Contents(title, kind, digest, len(content), read.text, chunks)
            document = await self._documents.put(place, contents)
        status: Done = "updated" if found else "created"
        facts = {"library": place.library, "document": document, "chunks": len(chunks), "status": status}
        log.info("document_ingested", extra=facts)
        return Ingested(document, status, len(chunks))
