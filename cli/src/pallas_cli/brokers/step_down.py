"""Has the leader of a stream step down, so that another replica leads it."""

import json
from functools import partial

from pallas_bus.transport.connection import Bus
from pallas_bus.transport.retry import retry_while_unavailable
from pallas_cli.plain_text import print_plain
from pallas_cli.refused import Refused, WrongUsage
from pallas_contracts.errors import PallasError, Unavailable
from pallas_contracts.ids import is_token

_WITHIN, _PAUSE = 10.0, 0.1
"""Seconds in which there must be a leader again, and between two looks."""


async def step_down(bus: Bus, stream: str, *, to: str | None, as_json: bool) -> None:
    """Move the leader of a stream, to the server `to` if it has a replica, and print who leads then.

    Raises:
        WrongUsage: the name is none of a stream.
        Refused: there is no such stream or replica, the stream has one replica only, or no leader is elected.
    """
    if not is_token(stream.lower()):
        raise WrongUsage(f"{stream!r} is not the name of a stream; `pallas broker status` lists them")
    find = partial(_leader, bus, stream)
    try:
        before, replicas = await find(), await _replicas(bus, stream)
        if replicas == 1:
            raise Refused(f"{stream} has one replica only, on {before}: no other server can lead it", code=1)
        if before != to:
            await bus.api(f"STREAM.LEADER.STEPDOWN.{stream}", {"placement": {"preferred": to}} if to else {})
        leader = await retry_while_unavailable(find, "find the leader", deadline=_WITHIN, pause=_PAUSE)
    except PallasError as error:
        raise Refused(error.message) from error
    if as_json:
        print(json.dumps({"stream": stream, "before": before, "leader": leader}))
    else:
        print_plain(f"{stream} is led by {leader} (before: {before}).")


async def _replicas(bus: Bus, stream: str) -> int:
    return (await bus.api(f"STREAM.INFO.{stream}", {}))["config"]["num_replicas"]


async def _leader(bus: Bus, stream: str) -> str:
    """The server that leads the stream.

    Raises:
        Unavailable: there is no such stream, or it has no leader.
    """
    info = await bus.api(f"STREAM.INFO.{stream}", {}, timeout=2.0)
    leader: str | None = info.get("cluster", {}).get("leader")
    if leader is None:
        raise Unavailable(f"{stream} has no leader")
    return leader
