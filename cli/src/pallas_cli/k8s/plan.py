"""What a cluster should have: the manifests, made for each team, with what its folder holds and the broker's users.

Whoever has one folder can apply it alone: the other teams are known from the cluster, and stay.
"""

from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pallas_bus.access import make_seed, public_key
from pallas_cli.broker_config.users import SYSTEM, broker_users
from pallas_cli.k8s.folders import FOR_EACH, TEAM, HostedTeam, Object, Team, check_names, metadata, secret, slug_of
from pallas_cli.k8s.stamp import gateway_urls, stamped
from pallas_cli.k8s.users import FolderSeeds, KnownUsers, users_object, worker_user
from pallas_cli.refused import WrongUsage

_SEED = "agent-worker-nats-seed"

type Get = Callable[[str, str, str], Object | None]
"""Gets an object of the cluster by kind, name and namespace."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The objects in the order in which they are applied. `gone` are the teams that leave the cluster.

    The last object are the broker's users. All others follow from what these were in the cluster, so they name the
    version that was read: nothing may have changed it since.
    """

    namespace: str
    objects: list[Object]
    gone: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Planner:
    """Makes plans. Without `broker`, a folder with seeds, seeds are kept in the cluster that `get` reads.

    With `prune`, teams without a folder here leave, and agents that have left their folders lose their rights. With
    `only_teams`, nothing is applied that does not follow from the teams.
    """

    manifests: Sequence[Object]
    teams: Sequence[Team]
    get: Get
    broker: Path | None = None
    prune: bool = False
    only_teams: bool = False

    def plan(self) -> Plan:
        """What the cluster should have.

        Raises:
            Refused: the manifests have no workers, nobody knows the broker's users, or names clash.
        """
        namespace = self._namespace()
        stored = self.get("configmap", "broker-users", namespace)
        before = KnownUsers.of(stored) if stored is not None else None
        teams = self._hosted({} if before is None else before.teams)
        check_names(teams.values())
        seeds = {team.name: self._seed(team.name, namespace) for team in self.teams}
        keys = self._keys(before, seeds)
        users = users_object(KnownUsers(keys, teams), namespace)
        if stored is not None:
            users["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"]
        objects = list[Object]()
        for team in self.teams:
            objects += [_seed_object(team.name, seeds[team.name], namespace), *team.objects(namespace)]
        applied = filter(self._applies, self.manifests)
        objects += stamped(applied, list(teams.values()), gateway_urls(self.manifests))
        gone = set(before.teams if before else ()) - teams.keys()
        return Plan(namespace, [*_in_order(self._chosen(objects)), users], tuple(sorted(gone)))

    def _namespace(self) -> str:
        found = {each["metadata"].get("namespace", "default") for each in self.manifests if _for_each_team(each)}
        if len(found) != 1:
            raise WrongUsage(
                "the manifests have no workers: give an overlay of deploy/k8s, or what `helm template` prints"
            )
        return found.pop()

    def _hosted(self, before: Mapping[str, HostedTeam]) -> dict[str, HostedTeam]:
        teams = {} if self.prune else dict(before)
        for team in self.teams:
            was = () if self.prune or team.name not in before else before[team.name].agents
            agents = tuple(sorted({*was, *team.agents}))
            teams[team.name] = replace(team.hosted, agents=agents)
        return dict(sorted(teams.items()))

    def _seed(self, team: str, namespace: str) -> str:
        """The seed of a team's workers, which is made once: that of the folder, else that of the cluster."""
        folder = FolderSeeds(self.broker) if self.broker is not None else None
        if folder is not None and folder.has(worker_user(team)):
            return folder.seed(worker_user(team))
        if (kept := self.get("secret", _seed_name(team), namespace)) is not None:
            return b64decode(kept["data"][_SEED]).decode()
        return folder.seed(worker_user(team)) if folder is not None else make_seed()

    def _keys(self, before: KnownUsers | None, seeds: Mapping[str, str]) -> dict[str, Sequence[str]]:
        """The public keys of all users. An old seed in the folder is valid beside the new one."""
        known = {} if before is None else dict(before.keys)
        known |= {worker_user(team): [public_key(seed)] for team, seed in seeds.items()}
        if self.broker is not None:
            folder = FolderSeeds(self.broker)
            workers = [user for user in map(worker_user, seeds) if folder.has(user)]
            return known | folder.keys([*(user.name for user in broker_users(())), SYSTEM, *workers])
        if before is None:
            raise WrongUsage(
                "the cluster does not know the broker's users yet: name the folder in which `make secrets` keeps their "
                "seeds (--broker deploy)"
            )
        return known

    def _applies(self, manifest: Object) -> bool:
        return not self.only_teams or _for_each_team(manifest) or _reads_teams(manifest)

    def _chosen(self, objects: Sequence[Object]) -> list[Object]:
        """All objects; with `only_teams`, none of other teams."""
        if not self.only_teams:
            return list(objects)
        own = {None, *(slug_of(team.name) for team in self.teams)}
        return [each for each in objects if each["metadata"].get("labels", {}).get(TEAM) in own]


def _seed_name(team: str) -> str:
    return f"agent-worker-{slug_of(team)}"


def _seed_object(team: str, seed: str, namespace: str) -> Object:
    about = metadata(_seed_name(team), namespace, slug_of(team))
    return secret(about, {_SEED: b64encode(seed.encode()).decode()})


def _for_each_team(manifest: Object) -> bool:
    return manifest["metadata"].get("annotations", {}).get(FOR_EACH) == "team"


def _reads_teams(manifest: Object) -> bool:
    pod = manifest.get("spec", {}).get("template", {}).get("spec", {})
    return any(volume["name"] == "team" for volume in pod.get("volumes", ()))


def _in_order(objects: Sequence[Object]) -> list[Object]:
    """What others need comes first: namespaces, then what pods mount."""
    first = {"Namespace": 0, "ConfigMap": 1, "Secret": 1, "ServiceAccount": 1}
    return sorted(objects, key=lambda each: first.get(each["kind"], 2))
