"""The broker's users in a cluster, as the ConfigMap `broker-users`: public keys and subjects, and no secret.

Beside `users.conf` it has what that was made of, so that a team can be added by whoever has only that team's folder. An
agent that has left its folder keeps its rights until teams are pruned: its worker may still be finishing a turn.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from pallas_cli.broker_config.text import users_text
from pallas_cli.broker_config.users import SYSTEM, Seeds, WorkerTeams, broker_users
from pallas_cli.broker_config.write import READABLE
from pallas_cli.k8s.folders import LARGEST, OWN, HostedTeam, Object, config_map, metadata
from pallas_cli.refused import Refused

NAME = "broker-users"
_USERS, _STATE = "users.conf", "users.json"


@dataclass(frozen=True, slots=True)
class KnownUsers:
    """What a cluster's broker knows: public keys by user, and teams by name."""

    keys: Mapping[str, Sequence[str]]
    teams: Mapping[str, HostedTeam]

    @classmethod
    def of(cls, stored: Object) -> Self:
        """What the ConfigMap says.

        Raises:
            Refused: it was not made here.
        """
        try:
            state = json.loads(stored["data"][_STATE])
            return cls(state["keys"], {name: _team(name, it) for name, it in state["teams"].items()})
        except (KeyError, TypeError, ValueError) as error:
            raise Refused(
                f"the ConfigMap {NAME} of the cluster was not made by `pallas k8s`, or was changed: remove it, and "
                "apply all teams with the folder of `make secrets` (--broker deploy)"
            ) from error

    def public_keys(self, name: str) -> Iterable[str]:
        """The keys of a user."""
        return self.keys.get(name, ())


def seeds_in(folder: Path) -> Seeds:
    """The seeds that `make secrets` or `pallas broker config` keeps in a folder.

    Raises:
        Refused: it has none at all.
    """
    seeds = Seeds(folder / "secrets" / "nats", READABLE)
    if not seeds.folder.is_dir():
        raise Refused(f"{folder} has no seeds of a broker: run `make secrets` first")
    return seeds


def worker_user(team: str) -> str:
    """The user of a team's workers."""
    return WorkerTeams({team: ()}).user


def users_object(known: KnownUsers, namespace: str) -> Object:
    """The ConfigMap.

    Raises:
        Refused: there are too many agents for one.
    """
    users = broker_users([WorkerTeams({name: team.agents}) for name, team in sorted(known.teams.items())])
    text = users_text(users, known)
    teams = {name: _state_of(team) for name, team in known.teams.items()}
    keys = {name: list(known.public_keys(name)) for name in (*(user.name for user in users), SYSTEM)}
    state = json.dumps({"keys": keys, "teams": teams}, indent=1, sort_keys=True)
    if (size := len(text) + len(state)) > LARGEST:
        raise Refused(f"the broker's users have {size} bytes, and a ConfigMap holds {LARGEST}")
    return config_map(metadata(NAME, namespace), {_USERS: text, _STATE: state})


def _state_of(team: HostedTeam) -> Object:
    return {"agents": sorted(team.agents), "volume": team.volume, "runtimes": list(team.runtimes)}


def _team(name: str, state: Object) -> HostedTeam:
    """A team as the ConfigMap has it. One that was written by an older release has no agents of fast-agent."""
    return HostedTeam(name, tuple(state["agents"]), state["volume"], tuple(state.get("runtimes", (OWN,))))
