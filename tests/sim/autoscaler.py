"""How many workers KEDA and the autoscaler of Kubernetes would run, computed from the lag that they read.

KEDA looks every `polling` seconds, starts the first worker when there is any lag and ends the last one when there has
been none for `cooldown`. In between the autoscaler decides, every `sync` seconds: as many workers as the lag has
targets, rounded up; it does not move for a tenth, adds at most as many workers as there are (or four) at a time, and
removes some only when nothing else was wanted for `stable` seconds.
"""

import math
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Self

HPA_SYNC_SECONDS = 15.0
HPA_TOLERANCE = 0.1
_FEW = 4


@dataclass(frozen=True, slots=True)
class Rules:
    """What decides. Times are seconds, and those of the cluster divided by `faster`."""

    target: float
    least: int
    most: int
    polling: float
    cooldown: float
    stable: float
    removed: float
    removed_every: float
    sync: float

    @classmethod
    def of(cls, spec: dict[str, Any], *, faster: float) -> Self:
        """The rules that a ScaledObject gives."""
        advanced = spec["advanced"]
        down = advanced["horizontalPodAutoscalerConfig"]["behavior"]["scaleDown"]
        [policy] = down["policies"]
        [trigger] = spec["triggers"]
        assert policy["type"] == "Percent"
        return cls(
            target=float(trigger["metadata"]["targetValue"]),
            least=spec["minReplicaCount"],
            most=spec["maxReplicaCount"],
            polling=spec["pollingInterval"] / faster,
            cooldown=spec["cooldownPeriod"] / faster,
            stable=down["stabilizationWindowSeconds"] / faster,
            removed=policy["value"] / 100,
            removed_every=policy["periodSeconds"] / faster,
            sync=HPA_SYNC_SECONDS / faster,
        )


@dataclass
class Autoscaler:
    """Decides at each reading of the lag. `look` returns how many workers there should be."""

    rules: Rules
    replicas: int = 0
    _active: float = -math.inf
    _synced: float = -math.inf
    _wanted: deque[tuple[float, int]] = field(default_factory=deque[tuple[float, int]])
    _changes: deque[tuple[float, int]] = field(default_factory=deque[tuple[float, int]])

    def look(self, now: float, lag: float) -> int:
        """Record the lag, and return how many workers there should be."""
        if lag > 0:
            self._active = now
        if not self.replicas:
            self._set(now, max(self.rules.least, int(lag > 0)))
        elif not self.rules.least and now - self._active >= self.rules.cooldown:
            self._set(now, 0)
            self._wanted.clear()
        elif now - self._synced >= self.rules.sync:
            self._synced = now
            self._set(now, self._decide(now, lag))
        return self.replicas

    def _decide(self, now: float, lag: float) -> int:
        floor = max(1, self.rules.least)
        wanted = min(self.rules.most, max(floor, recommended(lag, self.rules.target, self.replicas)))
        self._wanted.append((now, wanted))
        while self._wanted[0][0] < now - self.rules.stable:
            self._wanted.popleft()
        if wanted >= self.replicas:
            return min(wanted, self._at(now, self.rules.sync) + max(self._at(now, self.rules.sync), _FEW))
        highest = min(self.replicas, max(count for _, count in self._wanted))
        least_now = math.ceil(self._at(now, self.rules.removed_every) * (1 - self.rules.removed))
        return max(highest, least_now, floor)

    def _at(self, now: float, ago: float) -> int:
        """How many workers there were at the beginning of the last `ago` seconds."""
        return next((before for when, before in self._changes if when > now - ago), self.replicas)

    def _set(self, now: float, replicas: int) -> None:
        if replicas != self.replicas:
            self._changes.append((now, self.replicas))
            self.replicas = replicas


def recommended(lag: float, target: float, replicas: int) -> int:
    """What the autoscaler recommends for an average value: the sum over the target, rounded up."""
    if abs(lag / (target * replicas) - 1) <= HPA_TOLERANCE:
        return replicas
    return math.ceil(lag / target)
