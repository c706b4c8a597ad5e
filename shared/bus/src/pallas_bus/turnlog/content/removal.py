"""Removes the content of a turn that has ended, from the log and from `TURN_OBJECTS`. Its events stay."""

from dataclasses import dataclass

from pallas_bus.transport.at_once import for_each
from pallas_bus.transport.connection import Bus
from pallas_bus.transport.reads import read
from pallas_bus.turnlog.content.objects import drop, objects_of
from pallas_bus.turnlog.content.sealed import sealed_of
from pallas_bus.turnlog.dead_letters import forget_original
from pallas_bus.turnlog.ref import TurnRef
from pallas_contracts.catalog import KEPT_FAILED, KEPT_REQUEST, TURN_CONTENT, TURN_LOG, TURN_OBJECTS
from pallas_contracts.errors import PallasError

_NO_MESSAGE = 10043
"""The message has expired meanwhile."""

_AT_ONCE = 16


async def remove_content(bus: Bus, ref: TurnRef) -> None:
    """Remove the content of a turn, its kept request and its objects.

    Raises:
        Unavailable: the broker does not answer; the call may be repeated.
    """
    for contract in (TURN_CONTENT, KEPT_REQUEST):
        await bus.api(f"STREAM.PURGE.{TURN_LOG.name}", {"filter": ref.on(contract.template)})
    await drop(bus, ref)


@dataclass(frozen=True, slots=True)
class Erased:
    """What was erased of a turn: messages of content, parts of objects, and whether an original of a dead letter.

    Parts of sealed requests and originals count as parts of objects.
    """

    messages: int
    parts: int
    original: bool

    @property
    def anything(self) -> bool:
        """Whether anything was erased."""
        return bool(self.messages or self.parts or self.original)


async def erase_content(bus: Bus, ref: TurnRef) -> Erased:
    """Remove the same, what is sealed, and the original of a dead letter; overwrite all of it on the broker's disk.

    Raises:
        Unavailable: the broker does not answer; the call may be repeated.
    """
    messages = 0
    for contract in (TURN_CONTENT, KEPT_REQUEST):
        messages += await _erase(bus, TURN_LOG.name, ref.on(contract.template))
    parts = await _erase(bus, TURN_OBJECTS.name, objects_of(ref)) + await _erase(bus, KEPT_FAILED.name, sealed_of(ref))
    return Erased(messages, parts, await forget_original(bus, ref.turn_id))


async def _erase(bus: Bus, stream: str, subject: str) -> int:
    positions = [record.seq async for record in read(bus, stream, subject)]

    async def erase(position: int) -> None:
        try:
            await bus.api(f"STREAM.MSG.DELETE.{stream}", {"seq": position})
        except PallasError as error:
            if error.facts.get("err_code") != _NO_MESSAGE:
                raise

    await for_each(positions, erase, at_once=_AT_ONCE)
    return len(positions)
