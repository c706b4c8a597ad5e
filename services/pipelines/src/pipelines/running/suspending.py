"""Executions that lack inputs: what they have computed is kept for a day, and a later execution goes on."""

from dataclasses import dataclass

from pallas_bus import kv
from pallas_bus.connection import Bus
from pallas_bus.reads import count_by_subject
from pallas_bus.streams import bucket_subject, stream_name
from pallas_contracts.catalog import CONSTELLATION, PIPELINES_TEAM, SUSPENSIONS
from pallas_contracts.errors import Conflict, NotFound, Rejected
from pallas_contracts.pipelines import Suspension
from pallas_contracts.turns import Principal
from pallas_turns.claims import TurnRef, find_in_log
from pipelines.storing.namespaces import owner_of

MOST_SUSPENDED = 100
"""Executions of one caller that wait for inputs."""

_LARGEST = 900_000
"""Bytes of an entry."""

_MARK_SECONDS = 1.0
"""How long the mark of a removed entry stays. Nobody follows this bucket."""


@dataclass(frozen=True)
class Suspensions:
    """The executions that wait for inputs."""

    bus: Bus

    async def suspend(self, suspension: Suspension) -> None:
        """Keep an execution.

        Raises:
            Rejected: its values are too large (`suspended_too_large`).
            Conflict: too many executions of its caller wait (`too_many`).
            Unavailable: the bucket cannot be written now.
        """
        owner, execution = suspension.owner, suspension.turn_id
        if len(await self._waiting(owner) - {execution}) >= MOST_SUSPENDED:
            raise Conflict(f"{MOST_SUSPENDED} executions of this caller wait for inputs already.", code="too_many")
        if len(suspension.model_dump_json()) > _LARGEST:
            raise Rejected("the values so far are too large to be kept", code="suspended_too_large")
        await kv.put(self.bus, SUSPENSIONS, suspension, owner=owner, turn=execution)

    async def of(self, caller: Principal) -> list[Suspension]:
        """The executions of a caller, the newest first, without their values: all of them may be large together."""
        owner, found = owner_of(caller).token, list[Suspension]()
        for execution in sorted(await self.waiting(caller), reverse=True):
            suspension = await kv.get(self.bus, SUSPENSIONS, owner=owner, turn=execution)
            if suspension is not None:
                found.append(suspension.model_copy(update={"answers": {}, "inputs": {}}))
        return found

    async def waiting(self, caller: Principal) -> set[str]:
        """The ids of the executions of a caller."""
        return await self._waiting(owner_of(caller).token)

    async def get(self, execution: str, caller: Principal) -> Suspension:
        """An execution of a caller.

        Raises:
            NotFound: the caller has none of this id that waits.
        """
        return (await self._entry(execution, caller))[0]

    async def take(self, execution: str, caller: Principal, turn_id: str) -> Suspension:
        """Go on with an execution in turn `turn_id`. A turn that went on with it before must have ended.

        Raises:
            NotFound: the caller has none of this id that waits.
            Conflict: another turn goes on with it (`resume_in_progress`).
        """
        suspension, position = await self._entry(execution, caller)
        other = suspension.resumed_by
        if other is not None and other != turn_id and not await self._ended(other):
            raise _in_progress(execution)
        taken = suspension.model_copy(update={"resumed_by": turn_id})
        try:
            await kv.put(self.bus, SUSPENSIONS, taken, after=position, owner=suspension.owner, turn=execution)
        except Conflict:
            raise _in_progress(execution) from None
        return taken

    async def forget(self, execution: str, caller: Principal) -> None:
        """Remove an execution of a caller.

        Raises:
            NotFound: the caller has none of this id that waits.
        """
        suspension, _ = await self._entry(execution, caller)
        await self._remove(suspension.owner, execution)

    async def done(self, suspension: Suspension) -> None:
        """Remove an execution that has all its outputs."""
        await self._remove(suspension.owner, suspension.turn_id)

    async def _remove(self, owner: str, execution: str) -> None:
        await kv.delete(self.bus, SUSPENSIONS, marked=_MARK_SECONDS, owner=owner, turn=execution)

    async def _waiting(self, owner: str) -> set[str]:
        """The ids of the executions of an owner, without their values."""
        subject = bucket_subject(SUSPENSIONS, SUSPENSIONS.key.filter(owner=owner))
        found = await count_by_subject(self.bus, stream_name(SUSPENSIONS), subject)
        return {key.rpartition(".")[2] for key in found}

    async def _entry(self, execution: str, caller: Principal) -> tuple[Suspension, int]:
        unknown = NotFound(f"There is no suspended execution {execution!r}.", code="unknown_execution")
        try:
            suspension, position = await kv.get_entry(
                self.bus, SUSPENSIONS, owner=owner_of(caller).token, turn=execution
            )
        except Rejected:
            raise unknown from None
        if suspension is None:
            raise unknown
        return suspension, position

    async def _ended(self, turn_id: str) -> bool:
        found = await find_in_log(self.bus, TurnRef(PIPELINES_TEAM, CONSTELLATION, turn_id))
        return found is None or found.ended or found.cancelled is not None


def _in_progress(execution: str) -> Conflict:
    return Conflict(f"The execution {execution!r} is being resumed already.", code="resume_in_progress")
