"""Finds stored pipelines that cannot run any more, when the modules that they call have changed.

Whose rights a pipeline runs with is not known here, so it is checked against the modules of all agents.
"""

import asyncio
import logging
from dataclasses import dataclass, field

from pallas_bus.errors import poll_now
from pallas_contracts.bounds import LONGEST_TEXT
from pallas_contracts.errors import Rejected
from pallas_contracts.pipelines import PipelineImage, StoredPipeline, UsedModule
from pallas_cst.check import check
from pallas_cst.faults import Code, Faulty
from pallas_cst.functions import Function, Functions
from pallas_cst.parse import parse
from pallas_cst.stdlib import STANDARD_FUNCTIONS
from pipelines.modules.catalogue import Catalogue, Modules, signature_of
from pipelines.storing.entries import image_owner
from pipelines.storing.pipelines import StoredPipelines

log = logging.getLogger(__name__)

PAUSE_SECONDS = 0.5
"""Changes within this time are looked at together."""

_AT_ONCE = 200
"""Pipelines that are looked at before others get their turn."""


@dataclass
class Drift:
    """Keeps `broken` of all stored pipelines up to date. Replicas that do so at the same time find the same."""

    store: StoredPipelines
    catalogue: Catalogue
    _dirty: asyncio.Event = field(default_factory=asyncio.Event)
    _checked: dict[str, tuple[UsedModule, ...]] = field(default_factory=dict[str, tuple[UsedModule, ...]])

    def __post_init__(self) -> None:
        self.catalogue.on_change(self._dirty.set)
        self.store.entries.table.on_change(self._stored)

    def _stored(self, key: str, entry: StoredPipeline | None) -> None:
        """A pipeline was stored, rolled back or removed. What this class itself writes does not count."""
        if entry is None:
            self._checked.pop(key, None)
        elif self._checked.get(key) != entry.modules:
            self._checked[key] = entry.modules
            self._dirty.set()

    async def keep(self, agents: asyncio.Event) -> None:
        """Look at all pipelines after each change, for ever. Before `agents` is set, not all definitions are known."""
        await agents.wait()
        await self.store.entries.table.synced.wait()
        while True:
            await self._dirty.wait()
            await asyncio.sleep(PAUSE_SECONDS)
            self._dirty.clear()
            await poll_now(self.look)

    async def look(self) -> None:
        """Look at all pipelines.

        Raises:
            Unavailable: the broker does not answer; the call may be repeated.
        """
        modules = self.catalogue.everything()
        for number, entry in enumerate(self.store.entries.everything()):
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
            broken = await self._broken(entry, modules)
            if broken != entry.broken:
                await self._say(entry, broken)

    async def _broken(self, entry: StoredPipeline, modules: Modules) -> str | None:
        """Why the active version of a pipeline cannot run, or None."""
        changed = [used for used in entry.modules if _signature(modules, used.name) != used.signature]
        if not changed:
            return None
        gone = [used.name for used in changed if used.name not in modules.functions.by_qualified]
        if gone:
            return f"{Code.UNDEFINED_FUNCTION}: there is no module {gone[0]} any more"[:LONGEST_TEXT]
        image = await self.store.images.get(image_owner(entry), entry.active_version.structural_hash)
        faulty = await asyncio.to_thread(_faulty, image, modules) if image is not None else None
        if faulty is None:
            return None
        now = "; ".join(f"{used.signature} is now {_signature(modules, used.name)}" for used in changed)
        return f"{Code.TYPE_ERROR}: modules have changed: {now}. {faulty.faults[0].message}"[:LONGEST_TEXT]

    async def _say(self, entry: StoredPipeline, broken: str | None) -> None:
        def change(known: StoredPipeline | None) -> StoredPipeline | None:
            if known is None or known.modules != entry.modules:  # it has been stored again
                return known
            return known.model_copy(update={"broken": broken})

        try:
            await self.store.entries.change(entry.name, change)
        except Rejected as error:  # with the reason the entry would be too large; others must be looked at
            log.warning("a broken pipeline cannot be marked", extra={"owner": entry.owner, "reason": error.message})
        else:
            log.info("pipeline broken" if broken else "pipeline runs again", extra={"owner": entry.owner})


def _signature(modules: Modules, name: str) -> str | None:
    function = modules.functions.by_qualified.get(name)
    return signature_of(function) if function is not None else None


def _faulty(image: PipelineImage, modules: Modules) -> Faulty | None:
    """What is wrong with a program. Other modules with the bare name of one that it calls do not count."""
    used = {module.name for module in image.modules}
    taken = {name.rpartition(".")[2] for name in used}

    def counts(function: Function) -> bool:
        return function.qualified in used or function.name not in taken

    tools = (module.function for module in modules.by_basis.values() if counts(module.function))
    try:
        check(parse(image.source), Functions((*STANDARD_FUNCTIONS, *tools)))
    except Faulty as faulty:
        return faulty
    return None
