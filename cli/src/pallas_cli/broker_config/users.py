"""The users of a broker, one for each service, and the seeds with which a process authenticates as a user.

A worker's user has rights for the teams that it hosts. A seed is stored in a file with its user's name. After a
rotation the previous seed is stored beside it, and stays valid until its file is removed.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pallas_cli.private_files import PRIVATE, kept
from pallas_cli.refused import Refused, WrongUsage
from pallas_contracts.catalog import SPEAKERS, WORKER

SEED = ".seed"
OLD = ".old"

SYSTEM = "system"
"""The user of the broker's system account: an operator who looks at servers and moves leaders. It reads no stream."""


@dataclass(frozen=True, slots=True)
class BrokerUser:
    """One user of a service. `hosted` are its agents by team, `of_workers` those of all workers; None: all agents."""

    name: str
    service: str
    hosted: Mapping[str, Collection[str]] | None = None
    of_workers: Mapping[str, Collection[str]] | None = None


@dataclass(frozen=True, slots=True)
class Seeds:
    """A folder of seeds, private to its owner. `mode` is the mode of the files."""

    folder: Path
    mode: int = PRIVATE

    def path(self, name: str) -> Path:
        """The seed file of a user."""
        return self.folder / f"{name}{SEED}"

    def kept(self, name: str) -> str:
        """The seed of a user, which is generated once."""
        from pallas_bus.access import make_seed

        return kept(self.path(name), make_seed, self.mode).strip()

    def rotate(self, name: str) -> None:
        """Generate a new seed for a user. The old one stays valid until its file is removed.

        Raises:
            Refused: the user has no seed, or the old seed of an earlier rotation is still there.
        """
        if not self.path(name).exists():
            known = ", ".join(sorted(path.name.removesuffix(SEED) for path in self.folder.glob(f"*{SEED}")))
            raise Refused(f"{self.folder} has no seed of {name!r}; it has: {known or 'none'}")
        if self._old(name).exists():
            raise Refused(f"the old seed of {name!r} is still valid: remove {self._old(name)} first")
        self.path(name).rename(self._old(name))
        self.kept(name)

    def valid(self, name: str) -> Iterator[str]:
        """The valid seeds of a user: the current one, and the old one until its file is removed."""
        yield self.kept(name)
        if self._old(name).exists():
            yield self._old(name).read_text("ascii").strip()

    def public_keys(self, name: str) -> Iterator[str]:
        """The public keys of a user's valid seeds."""
        from pallas_bus.access import public_key

        return map(public_key, self.valid(name))

    def _old(self, name: str) -> Path:
        return self.path(name).with_name(f"{name}{SEED}{OLD}")


@dataclass(frozen=True, slots=True)
class WorkerTeams:
    """The teams that one kind of worker hosts: agents by team."""

    hosted: Mapping[str, Collection[str]] = field(default_factory=dict[str, Collection[str]])

    @property
    def user(self) -> str:
        """The name of its user. It is unique, because names of teams have no dots."""
        return ".".join(("agent-worker", *sorted(self.hosted)))


def broker_users(workers: Sequence[WorkerTeams]) -> list[BrokerUser]:
    """All users of a broker with these workers."""
    agents: dict[str, set[str]] = {}
    for worker in workers:
        for team, hosted in worker.hosted.items():
            agents.setdefault(team, set()).update(hosted)
    users = [BrokerUser(service, service, of_workers=agents) for service in SPEAKERS if service != WORKER]
    return [*users, *(BrokerUser(worker.user, WORKER, worker.hosted) for worker in workers)]


def stack_users(agents: Mapping[str, Collection[str]]) -> list[BrokerUser]:
    """The users of the broker of `pallas up`, where every worker hosts every team. `agents` are those at the start."""
    return [BrokerUser(service, service, of_workers=agents) for service in SPEAKERS]


def read_workers(groups: Sequence[Sequence[Path]], environ: Mapping[str, str]) -> list[WorkerTeams]:
    """The kinds of workers for these groups of team folders, one kind for each group.

    Raises:
        Refused: a folder has faults, or two groups have the same teams.
    """
    from pallas_cli.team_folders import read_teams

    workers = [WorkerTeams({team.name: team.agents for team in read_teams(group, environ)}) for group in groups]
    if len({worker.user for worker in workers}) < len(workers):
        raise WrongUsage("two groups have the same teams")
    return workers
