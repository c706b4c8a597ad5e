"""The users of a broker, one for each service, and the seeds that make a process one of them.

A worker's user is for the teams it hosts. A seed is a file of its user's name; beside it there may be the one that it
has replaced, which counts until it is removed.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pallas_cli.private_files import PRIVATE, kept
from pallas_cli.refused import Refused
from pallas_contracts.catalog import PER_TEAM, SPEAKERS

SEED = ".seed"
OLD = ".old"


@dataclass(frozen=True, slots=True)
class BrokerUser:
    """One user: a service, for the agents by team that it hosts; None stands for all there are."""

    name: str
    service: str
    hosted: Mapping[str, Collection[str]] | None = None


@dataclass(frozen=True, slots=True)
class Seeds:
    """A folder of seeds. `mode` is that of the files; the folder is for its owner only."""

    folder: Path
    mode: int = PRIVATE

    def path(self, name: str) -> Path:
        """Where the seed of a user is."""
        return self.folder / f"{name}{SEED}"

    def kept(self, name: str) -> str:
        """The seed of a user: made once."""
        from pallas_bus.transport.access import make_seed

        return kept(self.path(name), make_seed, self.mode).strip()

    def rotate(self, name: str) -> None:
        """Make another seed for a user; the one before counts until its file is removed.

        Raises:
            Refused: there is no such user, or it was rotated and the old seed still counts.
        """
        if not self.path(name).exists():
            known = ", ".join(sorted(path.name.removesuffix(SEED) for path in self.folder.glob(f"*{SEED}")))
            raise Refused(f"there is no seed of {name!r} in {self.folder} (there are: {known or 'none'})")
        if self._old(name).exists():
            raise Refused(f"the old seed of {name!r} still counts: remove {self._old(name)} first")
        self.path(name).rename(self._old(name))
        self.kept(name)

    def counting(self, name: str) -> Iterator[str]:
        """Every seed that makes a process this user."""
        yield self.kept(name)
        if self._old(name).exists():
            yield self._old(name).read_text("ascii").strip()

    def _old(self, name: str) -> Path:
        return self.path(name).with_name(f"{name}{SEED}{OLD}")


@dataclass(frozen=True, slots=True)
class WorkerTeams:
    """The teams that one kind of worker hosts together: agents by team."""

    hosted: Mapping[str, Collection[str]] = field(default_factory=dict[str, Collection[str]])

    @property
    def user(self) -> str:
        """The name of its user; a dot can be in no team's name."""
        return ".".join(("agent-worker", *sorted(self.hosted)))


def broker_users(workers: Sequence[WorkerTeams]) -> list[BrokerUser]:
    """All users of a broker whose workers host these teams."""
    users = [BrokerUser(service, service) for service in SPEAKERS if service not in PER_TEAM]
    return [*users, *(BrokerUser(worker.user, service, worker.hosted) for service in PER_TEAM for worker in workers)]


def stack_users() -> list[BrokerUser]:
    """The users of a broker of which every worker hosts every team, as those of `pallas up` do."""
    return [BrokerUser(service, service) for service in SPEAKERS]


def read_workers(groups: Sequence[Sequence[Path]], environ: Mapping[str, str]) -> list[WorkerTeams]:
    """What the workers host that are told these folders, each group by workers of its own.

    Raises:
        Refused: a folder cannot be used, or two groups have the same teams.
    """
    from pallas_cli.team_folders import read_teams

    workers = [WorkerTeams({team.name: team.agents for team in read_teams(group, environ)}) for group in groups]
    if len({worker.user for worker in workers}) < len(workers):
        raise Refused("the same teams are given twice")
    return workers
