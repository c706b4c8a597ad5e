"""Stored pipelines: by name with versions, by hash, and published as tools.

What another caller owns is answered as if it did not exist, unless it is in the namespace `shared`, whose pipelines
every caller with the scope `write` may change.
"""

from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta

from pallas_bus import kv
from pallas_bus.connection import Bus
from pallas_bus.kv import watch
from pallas_contracts.agents import LARGEST_DEFINITION
from pallas_contracts.catalog import AGENTS, PIPELINE_NAMES, PIPELINE_NAMESPACES, PIPELINES_TEAM, PUBLISHED
from pallas_contracts.errors import Conflict, NotFound, Rejected
from pallas_contracts.message import utc_now
from pallas_contracts.pipelines import MOST_VERSIONS, PipelineImage, PipelineVersion, Publication, StoredPipeline
from pallas_contracts.turns import Principal
from pallas_turns.definitions import revision_of
from pipelines.storing.entries import Change, Entries, Images, expired, image_owner
from pipelines.storing.namespaces import SHARED, Caller, FullName, Namespaces, hash_of, not_found, read_name
from pipelines.storing.publishing import by_tool, check_published, check_tool_name, published_definition
from pipelines.storing.scopes import Scope

MOST_PIPELINES, MOST_BYTES = 10_000, 512 * 2**20
"""Stored pipelines of one owner, and the bytes of all their versions, which stay in the broker's store."""

SWEEP_SECONDS = 300.0
"""How often `sweep` should run."""

_LIFETIME = timedelta(hours=24)
_ENVELOPE = 8192
"""Bytes of a message besides a definition."""


@dataclass(frozen=True, slots=True)
class Stored:
    """What storing has made. `new` is False if the active version is the same program already."""

    pipeline: StoredPipeline
    new: bool

    @property
    def version(self) -> PipelineVersion:
        """The active version."""
        return self.pipeline.active_version


@dataclass(frozen=True, slots=True)
class Found:
    """A stored program. `pipeline` is None if it was found by its hash.

    Who may only execute it, because another caller has published it, must not see its source: it is not `readable`.
    """

    pipeline: StoredPipeline | None
    image: PipelineImage
    readable: bool = True


@asynccontextmanager
async def open_pipelines(bus: Bus) -> AsyncGenerator["StoredPipelines"]:
    """The stored pipelines, kept in memory inside the block."""
    async with AsyncExitStack() as stack:
        names = await stack.enter_async_context(watch(bus, PIPELINE_NAMES))
        namespaces = await stack.enter_async_context(watch(bus, PIPELINE_NAMESPACES))
        yield StoredPipelines(bus, Entries(bus, names), Images(bus), Namespaces(bus, namespaces))


@dataclass(frozen=True)
class StoredPipelines:
    """All stored pipelines, as each caller may see and change them.

    Every method but those that only look into memory raises `Unavailable` while the broker does not answer. `NotFound`
    (`not_found`) is what does not exist, or what the caller may not see; `Denied` (`scope`) is what its scope excludes.
    """

    bus: Bus
    entries: Entries
    images: Images
    namespaces: Namespaces

    async def store(self, caller: Caller, image: PipelineImage, name: str) -> Stored:
        """Store a program under a name, as its active version. A temporary name is kept a day from then.

        Raises:
            Rejected: the name cannot be used (`bad_name`), or the published pipeline would call itself (`E031`).
            NotFound: the namespace is another caller's.
            Conflict: the owner has too many pipelines (`too_many`), or what is published would have a fault.
        """
        caller.check(Scope.WRITE)
        known = await self._foreign(caller, name)
        full = read_name(known.name) if known is not None else await self.namespaces.to_store(caller, name)
        owner = known.owner if known is not None else caller.owner
        self._check_size(owner, image)
        await self.images.keep(SHARED if full.namespace == SHARED else owner, image)
        new = False

        def change(entry: StoredPipeline | None) -> StoredPipeline:
            nonlocal new
            if entry is None:
                self._check_room(owner)
            elif not _sees(caller, entry):
                raise not_found(name)
            wanted = _with_version(entry, full, owner, image)
            new = entry is None or wanted.active != entry.active
            return wanted

        return Stored(await self._changed(full, change), new)

    async def _foreign(self, caller: Caller, name: str) -> StoredPipeline | None:
        """The pipeline of another owner, not a shared one, that an administrator names in full."""
        if caller.scope < Scope.ADMIN or not read_name(name).namespace:
            return None
        [full, *_] = await self.namespaces.to_read(caller, name)
        entry = await self.entries.get(full)
        return entry if entry is not None and entry.namespace != SHARED and entry.owner not in caller.owners else None

    async def keep_draft(self, caller: Caller, image: PipelineImage) -> bool:
        """Keep a program without a name for a day, so that its owner can refer to its hash. False: there are too many.

        Only callers that may execute can use it; for others nothing is kept.
        """
        return caller.scope >= Scope.EXECUTE and await self.images.keep_draft(caller.owner, image)

    async def pipeline(self, caller: Caller, ref: str) -> StoredPipeline:
        """The pipeline of a name: of the caller, or else a shared one."""
        caller.check(Scope.READ)
        try:
            names = await self.namespaces.to_read(caller, ref)
        except Rejected:
            names = []
        for name in names:
            entry = await self.entries.get(name)
            if entry is not None and _sees(caller, entry):
                return entry
        raise not_found(ref)

    async def get(self, caller: Caller, ref: str, version: int | None = None) -> Found:
        """The program of a name (the active version, or that one), or of a hash `sha256:…`.

        By hash a caller has its own programs and drafts, shared ones, and published ones.
        """
        caller.check(Scope.READ)
        if (structural_hash := hash_of(ref)) is not None:
            return await self._by_hash(caller, structural_hash)
        entry = await self.pipeline(caller, ref)
        return await self._found(entry, _version(entry, version, ref), ref)

    async def by_tool(self, tool: str) -> Found:
        """The published pipeline of a tool of `pipelines/published`, which all callers may execute."""
        entry = by_tool(self.entries.published()).get(tool)
        if entry is None:  # it may have been published a moment ago, at another replica
            await self.entries.table.poll()
            entry = by_tool(self.entries.published()).get(tool)
        if entry is None:
            raise not_found(tool)
        return replace(await self._found(entry, entry.active_version, tool), readable=False)

    def listed(self, caller: Caller, namespace: str | None = None) -> list[StoredPipeline]:
        """The caller's own pipelines and the shared ones, by name; all for an administrator."""
        caller.check(Scope.READ)
        seen = (
            self.entries.everything() if caller.scope >= Scope.ADMIN else self.entries.of_owners(*caller.owners, SHARED)
        )
        return [entry for entry in seen if namespace in (None, entry.namespace)]

    def names_of(self, caller: Caller, structural_hash: str) -> list[str]:
        """The names, among those that the caller sees, whose active version has this hash."""
        seen = self.listed(caller)
        return [entry.name for entry in seen if entry.active_version.structural_hash == structural_hash]

    async def rollback(self, caller: Caller, ref: str, version: int | None = None) -> StoredPipeline:
        """Make a version the active one; by default the one before.

        Raises:
            NotFound: there is no such version.
            Rejected: the published pipeline would call itself (`E031`).
        """
        caller.check(Scope.WRITE)
        entry = await self.pipeline(caller, ref)
        if version is None:
            earlier = [each.version for each in entry.versions if each.version < entry.active]
            version = max(earlier, default=0)
        found = await self._found(entry, _version(entry, version, ref), ref)

        def change(known: StoredPipeline | None) -> StoredPipeline:
            wanted = _about(_seen(caller, known, ref), found.image, active=version)
            _version(wanted, version, ref)
            return wanted

        return await self._changed(entry.name, change)

    async def alias(self, caller: Caller, name: str, structural_hash: str) -> StoredPipeline:
        """Let a name stand for a program that the caller has by its hash (64 hex digits, `sha256:` may be in front).

        Raises:
            NotFound: the caller has no such program.
            As `store` raises.
        """
        caller.check(Scope.WRITE)
        wanted = hash_of(structural_hash) or hash_of(f"sha256:{structural_hash}")
        found = await self._by_hash(caller, wanted) if wanted is not None else None
        if found is None or not found.readable:
            raise not_found(structural_hash)
        return (await self.store(caller, found.image, name)).pipeline

    async def delete(self, caller: Caller, ref: str) -> None:
        """Remove a name with its versions; or a program by its hash, if no name has it.

        Raises:
            Conflict: names have the program (`AliasConflict`).
        """
        caller.check(Scope.WRITE)
        if (structural_hash := hash_of(ref)) is not None:
            await self._delete_by_hash(caller, structural_hash, ref)
            return
        entry = await self.pipeline(caller, ref)
        await self._change(entry.name, lambda known: _gone(_seen(caller, known, ref)))

    async def publish(self, caller: Caller, ref: str, tool: str, description: str = "") -> StoredPipeline:
        """Make a pipeline a tool of `pipelines/published`, which all callers may execute, each with its own rights.

        Raises:
            Rejected: the tool's name cannot be used, the pipeline is temporary or its types are too large for a tool
                (`bad_tool`); or it would call itself (`E031`).
            Conflict: another pipeline has the tool's name (`tool_taken`), or too many are published (`too_many`).
        """
        caller.check(Scope.WRITE)
        check_tool_name(tool)
        entry = await self.pipeline(caller, ref)
        who = caller.identity
        publication = Publication(
            tool=tool, description=description, by=Principal(type=who.type, id=who.id), at=utc_now()
        )

        def change(known: StoredPipeline | None) -> StoredPipeline:
            seen = _seen(caller, known, ref)
            if seen.expires_at is not None:
                raise Rejected(
                    "A temporary pipeline cannot be published: store it under another name.", code="bad_tool"
                )
            return seen.model_copy(update={"published": publication, "updated_at": publication.at})

        stored = await self._changed(entry.name, change)
        first = by_tool(self.entries.published()).get(tool, stored)
        if first.name != stored.name:  # both were published at the same time
            await self.unpublish(caller, stored.name)
            raise Conflict(f"Another published pipeline is called {tool!r}.", code="tool_taken")
        return stored

    async def unpublish(self, caller: Caller, ref: str) -> StoredPipeline:
        """Remove a pipeline's tool. One that is not published is no error."""
        caller.check(Scope.WRITE)
        entry = await self.pipeline(caller, ref)

        def change(known: StoredPipeline | None) -> StoredPipeline:
            return _seen(caller, known, ref).model_copy(update={"published": None})

        return await self._changed(entry.name, change)

    async def publish_definition(self) -> None:
        """Make the definition of `pipelines/published` that of the published pipelines."""
        while True:
            # In this order: whoever publishes a pipeline later writes the definition later, too.
            known, position = await kv.get_entry(self.bus, AGENTS, team=PIPELINES_TEAM, agent=PUBLISHED)
            await self.entries.table.poll()
            wanted = published_definition(self.entries.published())
            revision = revision_of(wanted)
            if known is not None and known.revision == revision:
                return
            fresh = wanted.model_copy(update={"revision": revision})
            with suppress(Conflict):
                await kv.put(self.bus, AGENTS, fresh, after=position, team=PIPELINES_TEAM, agent=PUBLISHED)
                return

    async def sweep(self) -> None:
        """Remove temporary pipelines whose time is over, and programs that no name has any more.

        Also repairs what a process that died between two writes has left.
        """
        await self.entries.table.poll()
        for entry in [entry for entry in self.entries.table.values() if expired(entry)]:
            await self.entries.change(entry.name, lambda known: known)
        entries = self.entries.everything()
        used = {entry.namespace for entry in entries}
        for namespace in list(self.namespaces.table.values()):
            if namespace.short.startswith("agent:") and namespace.short not in used:
                with suppress(Conflict):
                    await self.namespaces.release(namespace)
        needed = {(image_owner(entry), each.structural_hash) for entry in entries for each in entry.versions}
        await self.images.forget_others(needed)
        await self.publish_definition()

    async def _change(self, name: FullName | str, change: Change) -> StoredPipeline | None:
        """Change an entry, and what follows from it: the definition of published ones, programs without a version."""
        before: StoredPipeline | None = None

        def remembering(entry: StoredPipeline | None) -> StoredPipeline | None:
            nonlocal before
            before = entry
            wanted = change(entry)
            if wanted is not None:
                check_published(wanted, self.entries.published(), largest=self._largest)
            return wanted

        stored = await self.entries.change(name, remembering)
        if before is not None:
            await self._forget_versions(before, stored)
        if any(entry is not None and entry.published is not None for entry in (before, stored)):
            await self.publish_definition()
        return stored

    async def _changed(
        self, name: FullName | str, change: Callable[[StoredPipeline | None], StoredPipeline]
    ) -> StoredPipeline:
        """As `_change`, of what stays."""
        stored = await self._change(name, change)
        assert stored is not None
        return stored

    async def _forget_versions(self, before: StoredPipeline, now: StoredPipeline | None) -> None:
        """Remove programs that an entry does not have any more, if no other one has them."""
        left = {each.structural_hash for each in before.versions} - {each.structural_hash for each in _versions(now)}
        if left:
            owner = image_owner(before)
            needed = {each.structural_hash for entry in self.entries.of_owners(owner) for each in entry.versions}
            await self.images.forget(*((owner, each) for each in left - needed))

    async def _delete_by_hash(self, caller: Caller, structural_hash: str, ref: str) -> None:
        found = False
        owners = (*caller.owners, SHARED)
        for owner in owners:
            if await self.images.get(owner, structural_hash, drafts=True) is None:
                continue
            found = True
            named = [
                entry.name
                for entry in self.entries.of_owners(owner)
                if structural_hash in {each.structural_hash for each in entry.versions}
            ]
            if named:
                raise Conflict(f"The pipeline has names: {', '.join(named[:10])}", code="AliasConflict")
        if not found:
            raise not_found(ref)
        await self.images.forget(*((owner, structural_hash) for owner in owners), at_once=True)
        for owner in caller.owners:
            await self.images.forget_draft(owner, structural_hash)

    async def _by_hash(self, caller: Caller, structural_hash: str) -> Found:
        sees_all = caller.scope >= Scope.ADMIN
        readable = (*caller.owners, SHARED)
        others = list[str]()
        for entry in self.entries.everything() if sees_all else self.entries.published():
            versions = entry.versions if sees_all else (entry.active_version,)
            if structural_hash in {each.structural_hash for each in versions}:
                others.append(image_owner(entry))
        for owner in dict.fromkeys((*readable, *others)):
            image = await self.images.get(owner, structural_hash, drafts=owner in caller.owners)
            if image is not None:
                return Found(None, image, readable=sees_all or owner in readable)
        raise not_found(f"sha256:{structural_hash}")

    async def _found(self, entry: StoredPipeline, version: PipelineVersion, ref: str) -> Found:
        image = await self.images.get(image_owner(entry), version.structural_hash)
        if image is None:  # it was deleted meanwhile
            raise not_found(ref)
        return Found(entry, image)

    def _check_room(self, owner: str) -> None:
        kept = Counter(entry.owner for entry in self.entries.of_owners(owner, SHARED))
        if kept[owner] >= MOST_PIPELINES:
            raise Conflict(f"The owner has {MOST_PIPELINES} stored pipelines already.", code="too_many")

    def _check_size(self, owner: str, image: PipelineImage) -> None:
        """Nothing is stored of what is refused: it would stay for a while."""
        entries = self.entries.of_owners(owner, SHARED)
        stored = sum(each.size for entry in entries if entry.owner == owner for each in entry.versions)
        if stored + _size(image) > MOST_BYTES:
            raise Conflict(f"The owner has stored pipelines of {MOST_BYTES // 2**20} MiB already.", code="too_many")

    @property
    def _largest(self) -> int:
        return min(LARGEST_DEFINITION, self.bus.max_payload) - _ENVELOPE


def _sees(caller: Caller, entry: StoredPipeline) -> bool:
    return entry.namespace == SHARED or entry.owner in caller.owners or caller.scope >= Scope.ADMIN


def _seen(caller: Caller, entry: StoredPipeline | None, ref: str) -> StoredPipeline:
    """The entry, which may have been removed or replaced meanwhile."""
    if entry is None or not _sees(caller, entry):
        raise not_found(ref)
    return entry


def _gone(_: StoredPipeline) -> None:
    """What becomes of an entry that is deleted."""


def _versions(entry: StoredPipeline | None) -> tuple[PipelineVersion, ...]:
    return entry.versions if entry is not None else ()


def _version(entry: StoredPipeline, version: int | None, ref: str) -> PipelineVersion:
    wanted = entry.active if version is None else version
    found = next((each for each in entry.versions if each.version == wanted), None)
    if found is None:
        raise NotFound(f"Pipeline {ref[:300]!r} has no such version", code="not_found")
    return found


def _about(entry: StoredPipeline, image: PipelineImage, *, active: int) -> StoredPipeline:
    """The entry with another active version."""
    facts = {"inputs": image.inputs, "outputs": image.outputs, "modules": image.modules, "broken": None}
    return entry.model_copy(update={**facts, "active": active, "updated_at": utc_now()})


def _size(image: PipelineImage) -> int:
    return len(image.model_dump_json())


def _with_version(entry: StoredPipeline | None, name: FullName, owner: str, image: PipelineImage) -> StoredPipeline:
    """The entry with a program as its active version: a new one, unless it is that of the active one."""
    now = utc_now()
    hashes = (image.structural_hash, image.syntactic_hash)
    known = _versions(entry)
    number = max((each.version for each in known), default=0) + 1
    version = PipelineVersion(
        version=number,
        structural_hash=hashes[0],
        syntactic_hash=hashes[1],
        size=_size(image),
        created_at=now,
    )
    expires_at = now + _LIFETIME if name.temporary else None
    if entry is None:
        fresh = StoredPipeline(
            name=str(name),
            namespace=name.namespace,
            owner=owner,
            versions=(version,),
            active=number,
            updated_at=now,
            expires_at=expires_at,
        )
        return _about(fresh, image, active=number)
    active = entry.active_version
    if (active.structural_hash, active.syntactic_hash) == hashes:
        again = _about(entry, image, active=entry.active).model_copy(update={"expires_at": expires_at})
        return entry if again.model_copy(update={"updated_at": entry.updated_at}) == entry else again
    while len(known) >= MOST_VERSIONS:
        oldest = next(each for each in known if each.version != entry.active)
        known = tuple(each for each in known if each != oldest)
    added = entry.model_copy(update={"versions": (*known, version), "expires_at": expires_at})
    return _about(added, image, active=number)
