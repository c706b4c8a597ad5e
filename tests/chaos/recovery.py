"""How long turns stood still after a blow: from the blow to the next message of each turn that it hit."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from tests.chaos.evidence import LoggedTurn
from tests.chaos.storm import Fallen

from pallas_bus.reads import Record
from pallas_contracts.turns import Claimed


def recoveries(
    fallen: Iterable[Fallen], turns: dict[str, LoggedTurn], records: Sequence[Record]
) -> dict[str, list[float]]:
    """Seconds by kind of blow. For what executes turns: until each turn that it had is claimed again, or has its end;
    for the broker: from its return until something is stored. What a blow to something else costs is not in the log.
    """
    found: dict[str, list[float]] = {}
    for each in fallen:
        kind = f"{each.blow.target} {each.blow.manner}"
        match each.blow.target:
            case "worker" | "fast-agent worker" | "pool" | "pipelines":
                for again, seconds in _turns_again(each, turns.values()):
                    found.setdefault(f"{kind}: {again}", []).append(seconds)
            case "nats" if each.healed is not None:
                stored = [record.time for record in records if record.time > each.healed]
                found.setdefault(f"{kind}: stored again", []).extend(_seconds(each.healed, stored))
            case _:
                pass
    return found


def _turns_again(fallen: Fallen, turns: Iterable[LoggedTurn]) -> Iterable[tuple[str, float]]:
    for turn in turns:
        before = [at for at in turn.claims if at.time <= fallen.time]
        if not before or any(at.time <= fallen.time for at in turn.outcomes):
            continue
        held = before[-1].body
        if not isinstance(held, Claimed) or held.worker != fallen.instance:
            continue
        claims = [at for at in turn.claims if at.time > fallen.time]
        ended = any(at.body.code == "worker_lost" for at in turn.outcomes)
        what = "worker_lost" if ended else "executed again" if claims else "ended after all"
        later = [at.time for at in claims] + [at.time for at in turn.outcomes]
        yield from ((what, seconds) for seconds in _seconds(fallen.time, later))


def _seconds(since: datetime, times: Sequence[datetime]) -> Iterable[float]:
    if times:
        yield (min(times) - since).total_seconds()
