"""A team as a cluster hosts it: its agents, and the volume that brings its folder to pods."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from pallas_cli.k8s.objects import Object
from pallas_cli.refused import Refused

OWN, FAST_AGENT = "own", "fast-agent"
"""Which worker executes an agent: agent-worker, or fast-agent-worker."""

_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?")
_LONGEST_NAME = 63 - len("agent-worker-")
_LONGEST_FAST_NAME = _LONGEST_NAME - len("fast-")
"""KEDA writes the name of a ScaledObject into a label."""


@dataclass(frozen=True, slots=True)
class HostedTeam:
    """A team. `volume` is that of a pod, without its name; `runtimes` are the workers that its agents need."""

    name: str
    agents: tuple[str, ...]
    volume: Object
    runtimes: tuple[str, ...] = (OWN,)

    @property
    def slug(self) -> str:
        """The team's name as a part of names of objects."""
        return slug_of(self.name)


def slug_of(team: str) -> str:
    """The team's name as a part of names of objects.

    Raises:
        Refused: no object can have it.
    """
    slug = team.replace("_", "-")
    if not _LABEL.fullmatch(slug) or len(slug) > _LONGEST_NAME:
        raise Refused(
            f"team {team!r} cannot be named in Kubernetes: at most {_LONGEST_NAME} letters, digits, - and _, "
            "with a letter or digit at both ends"
        )
    return slug


def check_names(teams: Iterable[HostedTeam]) -> None:
    """Check that objects of these teams have different names, which are not too long.

    Raises:
        Refused: two teams would share them, or one is too long.
    """
    names: dict[str, str] = {}
    for team in teams:
        if FAST_AGENT in team.runtimes and len(team.slug) > _LONGEST_FAST_NAME:
            raise Refused(
                f"team {team.name!r} has agents of fast-agent: its name has at most {_LONGEST_FAST_NAME} letters"
            )
        if (other := names.setdefault(team.slug, team.name)) != team.name:
            raise Refused(
                f"teams {other!r} and {team.name!r} would both be named {team.slug!r} in Kubernetes; rename one of them"
            )
