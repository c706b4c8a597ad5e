"""Restores a backup. The hold comes first, so that whatever starts afterwards executes no turn of it.

A restore that was interrupted is repeated with `--replace`: until one has finished, the hold says so.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import BinaryIO

from pyrage import x25519

from pallas_bus.connection import Bus
from pallas_bus.kv import get_entry, put, snapshot
from pallas_bus.snapshots import CHUNK, StreamState, delete_stream, stream_state
from pallas_bus.snapshots import restore as restore_stream
from pallas_bus.streams import bucket_config, make_stream, stream_name
from pallas_cli.backup import databases
from pallas_cli.backup.create import Say, sealed_of
from pallas_cli.backup.sealing import chunks_of, unseal
from pallas_cli.backup.store import Manifest, Part, Store, path_of
from pallas_cli.refused import Refused
from pallas_contracts.backups import Hold
from pallas_contracts.catalog import (
    BUCKETS,
    GATEWAYS,
    HOLDS,
    RESTORE_HOLD,
    STREAMS,
    TURN_LOG,
    TURN_QUEUE,
    WORKER_ALIVE,
    WORKERS,
)
from pallas_contracts.contract import Saved, Stream
from pallas_turns.rights import saved_streams

_LISTEN = 1.0
"""Seconds in which an executor that runs sends several heartbeats."""
_MADE_AGAIN = frozenset(stream_name(thing) for thing in (*STREAMS, *BUCKETS) if thing.saved is Saved.NEVER)
"""Backups of earlier releases have some. Sums of spending belong to the log that was lost: with the restored one, which
has the same calls, each would count twice."""


@dataclass(frozen=True)
class Restoring:
    """Restores a backup from `store`. `urls` are the databases by name, `by` is who does it.

    With `keep_databases` they are left as they are. Their services still settle what they were about to do, since turns
    that they have made may be unknown to the restored log.
    """

    bus: Bus
    urls: Mapping[str, str]
    store: Store
    manifest: Manifest
    identities: Sequence[x25519.Identity]
    by: str
    replicas: int
    keep_databases: bool
    say: Say

    async def require_stopped(self) -> None:
        """Check that nothing of Pallas runs.

        Raises:
            Refused: a worker, gateway or service is connected; with a line for each.
        """
        running = sorted(await self._alive() | await self._present())
        lines = [f"{name} is running" for name in running]
        for name, url in self._urls():
            if await databases.is_used(url):
                lines.append(f"the database {name!r} is in use")
        if lines:
            raise Refused(*lines, "stop everything but the broker and Postgres first")

    async def found(self) -> list[str]:
        """What the installation has of what a backup has, in words; empty for a new one."""
        found = list[str]()
        for name in saved_streams():
            state = await stream_state(self.bus, name)
            if state is not None and state.messages:
                found.append(f"stream {name} with {state.messages} messages")
        kept = () if self.keep_databases else self._urls()
        return found + [f"database {name}" for name, url in kept if not await databases.is_empty(url)]

    async def restore(self) -> Hold:
        """Replace whatever is there by the backup. Returns the hold, under which the installation may be started.

        Raises:
            Refused: a part or a database cannot be used.
            PallasError: the broker does not answer, or refuses.
        """
        hold = await self._hold()
        for thing in (*STREAMS, *BUCKETS):
            name = stream_name(thing)
            if thing is not HOLDS and await stream_state(self.bus, name) is not None:
                await delete_stream(self.bus, name)
        for part in self.manifest.parts:
            if part.kind == "stream" and part.name in _MADE_AGAIN:
                continue
            kept = part.kind == "database" and self.keep_databases
            await (self._mark(part) if kept else self._restore(part))
            self.say(f"{'kept' if kept else 'restored'} {part.kind} {part.name}")
        ends = {"queue_end": await self._end(TURN_QUEUE), "log_end": await self._end(TURN_LOG)}
        hold = hold.model_copy(update={"complete": True, **ends})
        await put(self.bus, HOLDS, hold, hold=RESTORE_HOLD)
        return hold

    async def _end(self, stream: Stream) -> int:
        """The last position in a stream."""
        state = await stream_state(self.bus, stream.name)
        return state.last if state is not None else 0

    async def _hold(self) -> Hold:
        await make_stream(self.bus, stream_name(HOLDS), bucket_config(HOLDS, self.replicas))
        hold = Hold(
            backup=self.manifest.id, taken_at=self.manifest.began_at, restored_at=datetime.now(UTC), restored_by=self.by
        )
        _, position = await get_entry(self.bus, HOLDS, hold=RESTORE_HOLD)
        await put(self.bus, HOLDS, hold, after=position, hold=RESTORE_HOLD)
        return hold

    async def _restore(self, part: Part) -> None:
        path = path_of(self.manifest.id, part.kind, part.name)

        async def stream(source: BinaryIO) -> None:
            assert part.stream is not None
            state = StreamState(part.stream["config"], part.stream["state"])
            await restore_stream(self.bus, state, chunks_of(source, CHUNK), replicas=self.replicas)

        async def database(source: BinaryIO) -> None:
            await databases.restore(self.urls[part.name], source)

        if part.kind == "stream":
            await unseal(self.store, path, sealed_of(part), self.identities, stream)
            return
        url = self.urls[part.name]
        await databases.clear(url)
        await unseal(self.store, path, sealed_of(part), self.identities, database)
        await self._mark(part)

    async def _mark(self, part: Part) -> None:
        await databases.mark_restored(self.urls[part.name], self.manifest.id, self.manifest.began_at)

    def _urls(self) -> list[tuple[str, str]]:
        return [(part.name, self.urls[part.name]) for part in self.manifest.parts if part.kind == "database"]

    async def _alive(self) -> set[str]:
        """The executors that send heartbeats."""
        heard = set[str]()
        subject = WORKER_ALIVE.template.filter()
        subscription = await self.bus.listen(subject, lambda message: heard.add(message.subject.rpartition(".")[2]))
        await asyncio.sleep(_LISTEN)
        await self.bus.unsubscribe(subscription)
        return heard

    async def _present(self) -> set[str]:
        return {*await snapshot(self.bus, WORKERS), *await snapshot(self.bus, GATEWAYS)}
