"""What a cluster should have, by its manifests, the team folders and what it has already."""

import re
from base64 import b64decode
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from tests.unit.cli.k8s.manifests import a_team, manifests

from pallas_bus.access import public_key
from pallas_cli.broker_config.write import BrokerFolder
from pallas_cli.k8s.folders import FAST_AGENT, HostedTeam, check_names, read_folders
from pallas_cli.k8s.plan import Plan, Planner
from pallas_cli.k8s.stamp import fast_agent_image
from pallas_cli.refused import Refused

type Key = tuple[str, str]


class Cluster:
    """A cluster that keeps what a plan says."""

    def __init__(self) -> None:
        self.objects = dict[Key, Any]()

    def get(self, kind: str, name: str, namespace: str) -> Any:
        """An object that was applied before, with its version."""
        assert namespace == "there"
        found = deepcopy(self.objects.get((kind, name)))
        if found is not None:
            found["metadata"]["resourceVersion"] = "1"
        return found

    def apply(self, plan: Plan) -> dict[Key, Any]:
        """Apply a plan; returns what has changed."""
        wanted = {(each["kind"].lower(), each["metadata"]["name"]): each for each in deepcopy(plan.objects)}
        expected = wanted["configmap", "broker-users"]["metadata"].pop("resourceVersion", None)
        assert expected == ("1" if self.objects else None)
        changed = {key: each for key, each in wanted.items() if self.objects.get(key) != each}
        self.objects |= changed
        return changed

    def plan(self, *folders: Path, broker: Path | None = None, **how: bool) -> Plan:
        """A plan for this cluster."""
        return Planner(manifests(), read_folders(folders, {}), self.get, broker, **how).plan()

    @property
    def users(self) -> str:
        """The broker's users."""
        return self.objects["configmap", "broker-users"]["data"]["users.conf"]


@pytest.fixture
def broker(tmp_path: Path) -> Path:
    """A folder with seeds, as `make secrets` makes them."""
    BrokerFolder(tmp_path / "deploy").write_users([])
    return tmp_path / "deploy"


@pytest.fixture
def red(tmp_path: Path) -> Path:
    """A team."""
    return a_team(tmp_path / "red", "red", "one")


@pytest.fixture
def blue(tmp_path: Path) -> Path:
    """Another team."""
    return a_team(tmp_path / "blue", "blue_sky", "two")


@pytest.fixture
def cluster(broker: Path, red: Path) -> Cluster:
    """A cluster with the team `red`. Afterwards, nobody needs the folder of seeds."""
    made = Cluster()
    made.apply(made.plan(red, broker=broker))
    return made


def test_each_team_has_workers_of_its_own_that_read_its_folder(cluster: Cluster, red: Path, blue: Path) -> None:
    cluster.apply(cluster.plan(red, blue))
    worker = cluster.objects["deployment", "agent-worker-blue-sky"]["spec"]
    pod = worker["template"]["spec"]
    assert {"name": "PALLAS_TEAMS", "value": "/teams/blue_sky"} in pod["containers"][0]["env"]
    assert [volume["name"] for volume in pod["volumes"]] == ["secrets", "team-blue-sky"]
    assert pod["volumes"][0]["projected"]["sources"][1] == {"secret": {"name": "agent-worker-blue-sky"}}
    assert worker["selector"]["matchLabels"]["pallas.dev/team"] == "blue-sky"
    assert ("deployment", "agent-worker") not in cluster.objects


def test_each_team_is_scaled_by_its_own_metric(cluster: Cluster, red: Path, blue: Path) -> None:
    cluster.apply(cluster.plan(red, blue))
    scaler = cluster.objects["scaledobject", "agent-worker-blue-sky"]["spec"]
    assert scaler["scaleTargetRef"]["name"] == "agent-worker-blue-sky"
    assert scaler["triggers"][0]["metadata"]["valueLocation"] == 'wanted{team="blue_sky"}'


def test_the_seed_of_workers_belongs_to_their_user_at_the_broker(cluster: Cluster) -> None:
    seed = b64decode(cluster.objects["secret", "agent-worker-red"]["data"]["agent-worker-nats-seed"]).decode()
    block = cluster.users.partition("# agent-worker.red\n")[2]
    assert f"nkey: {public_key(seed)}" in block
    assert "red__one" in block
    assert seed not in str(cluster.objects["configmap", "broker-users"])


def test_the_same_again_changes_nothing(cluster: Cluster, red: Path, broker: Path) -> None:
    assert cluster.apply(cluster.plan(red)) == {}
    assert cluster.apply(cluster.plan(red, broker=broker)) == {}


def test_a_new_agent_changes_its_team_and_the_users_and_restarts_nothing(cluster: Cluster, tmp_path: Path) -> None:
    changed = cluster.apply(cluster.plan(a_team(tmp_path / "red", "red", "one", "more")))
    assert set(changed) == {("configmap", "team-red"), ("configmap", "broker-users")}
    assert "red__more" in cluster.users.partition("# agent-worker.red\n")[2]


def test_a_new_team_changes_no_object_of_another(cluster: Cluster, red: Path, blue: Path) -> None:
    changed = set(cluster.apply(cluster.plan(red, blue)))
    own = {(kind, "agent-worker-blue-sky") for kind in ("secret", "deployment", "scaledobject")}
    own |= {("configmap", "team-blue-sky")}
    assert changed == own | {("configmap", "broker-users"), ("deployment", "health-monitor")}


def test_a_team_can_be_applied_by_who_has_its_folder_only(cluster: Cluster, red: Path, blue: Path) -> None:
    plan = cluster.plan(blue, only_teams=True)
    assert {each["metadata"]["name"] for each in plan.objects} == {
        "broker-users",
        "agent-worker-blue-sky",
        "team-blue-sky",
        "health-monitor",
    }
    cluster.apply(plan)
    assert cluster.apply(cluster.plan(red)) == {}
    pod = cluster.objects["deployment", "health-monitor"]["spec"]["template"]["spec"]
    assert [volume["name"] for volume in pod["volumes"]] == ["team-blue-sky", "team-red"]


def test_an_agent_that_left_its_folder_keeps_its_rights_until_teams_are_pruned(
    cluster: Cluster, tmp_path: Path
) -> None:
    """Its worker may be finishing one of its turns."""
    folder = a_team(tmp_path / "red", "red", "other")
    cluster.apply(cluster.plan(folder))
    assert "red__one" in cluster.users
    cluster.apply(cluster.plan(folder, prune=True))
    assert "red__one" not in cluster.users


def test_a_team_leaves_only_when_teams_are_pruned(cluster: Cluster, red: Path, blue: Path) -> None:
    cluster.apply(cluster.plan(red, blue))
    assert cluster.plan(blue).gone == ()
    plan = cluster.plan(blue, prune=True)
    assert plan.gone == ("red",)
    cluster.apply(plan)
    assert "agent-worker.red" not in cluster.users


def test_a_team_that_left_leaves_no_key_behind(cluster: Cluster, red: Path, blue: Path) -> None:
    cluster.apply(cluster.plan(red, blue))
    cluster.apply(cluster.plan(blue, prune=True))
    assert "agent-worker.red" not in cluster.objects["configmap", "broker-users"]["data"]["users.json"]


def test_a_folder_of_seeds_without_that_of_a_team_does_not_replace_it(
    cluster: Cluster, red: Path, blue: Path, broker: Path
) -> None:
    """Workers that run would be refused by the broker."""
    cluster.apply(cluster.plan(red, blue))
    assert cluster.apply(cluster.plan(red, blue, broker=broker)) == {}


def test_a_rotated_seed_reaches_the_cluster_and_the_old_one_stays_valid(
    cluster: Cluster, red: Path, broker: Path
) -> None:
    old = cluster.users
    BrokerFolder(broker).seeds.rotate("agent-worker.red")
    changed = cluster.apply(cluster.plan(red, broker=broker))
    assert set(changed) == {("configmap", "broker-users"), ("secret", "agent-worker-red")}
    before = re.findall("nkey: (U[A-Z0-9]+)", old)
    assert set(before) < set(re.findall("nkey: (U[A-Z0-9]+)", cluster.users))


def test_what_pods_mount_comes_before_the_pods_and_the_users_are_last(cluster: Cluster, red: Path) -> None:
    *others, users = cluster.plan(red).objects
    assert users["metadata"]["name"] == "broker-users"
    kinds = [each["kind"] for each in others]
    assert kinds.index("Deployment") > max(n for n, kind in enumerate(kinds) if kind in ("ConfigMap", "Secret"))


def test_a_job_that_changes_gets_another_name(cluster: Cluster, red: Path) -> None:
    [before] = [name for kind, name in cluster.objects if kind == "job"]
    changed = manifests()
    changed[-1]["spec"]["template"]["spec"]["containers"][0]["image"] = "one:2"
    plan = Planner(changed, read_folders([red], {}), cluster.get).plan()
    [after] = [each["metadata"]["name"] for each in plan.objects if each["kind"] == "Job"]
    assert before != after
    assert {before[:8], after[:8]} == {"migrate-"}


def test_without_seeds_anywhere_the_folder_of_seeds_is_asked_for(red: Path, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="--broker deploy"):
        Cluster().plan(red)
    with pytest.raises(Refused, match="run `make secrets` first"):
        Cluster().plan(red, broker=tmp_path / "nothing")


def test_manifests_without_workers_are_refused(red: Path) -> None:
    with pytest.raises(Refused, match="have no workers"):
        Planner(manifests()[2:], read_folders([red], {}), Cluster().get).plan()


def test_teams_whose_objects_would_share_names_are_refused(cluster: Cluster, red: Path, tmp_path: Path) -> None:
    teams = [a_team(tmp_path / "a", "a_b", "one"), a_team(tmp_path / "b", "a-b", "two")]
    with pytest.raises(Refused, match="'a-b' and 'a_b'"):
        cluster.plan(*teams)


def test_a_name_that_only_fits_without_fast_agent_is_refused_with_it() -> None:
    check_names([HostedTeam("r" * 46, ("one",), {})])
    with pytest.raises(Refused, match="at most 45 letters"):
        check_names([HostedTeam("r" * 46, ("one",), {}, (FAST_AGENT,))])


def test_users_that_somebody_else_has_made_are_not_taken_over(cluster: Cluster, red: Path) -> None:
    cluster.objects["configmap", "broker-users"]["data"] = {"users.conf": "accounts: {}"}
    with pytest.raises(Refused, match="was not made by `pallas k8s`"):
        cluster.plan(red)


def test_a_team_with_agents_of_fast_agent_has_workers_for_them(cluster: Cluster, broker: Path, tmp_path: Path) -> None:
    """They have the rights of the team's agent-worker, another image, fewer slots, and the gateways' addresses."""
    both = a_team(
        tmp_path / "both", "both", "one", harper_py="fast = FastAgent('x')\n\n\n@fast.agent('two')\ndef f(): ..."
    )
    with (both / "agents.yaml").open("a", encoding="utf-8") as file:
        file.write("\n  two: {module: harper.py}\n")
    cards = tmp_path / "cards" / ".fast-agent" / "agent-cards"
    cards.mkdir(parents=True)
    (cards / "clerk.md").write_text("---\nname: clerk\nmodel: passthrough\n---\nYou keep the books.\n", "utf-8")
    made = cluster.apply(cluster.plan(both, tmp_path / "cards", broker=broker))
    deployments = {name for kind, name in made if kind == "deployment" and "worker" in name}
    assert deployments == {"agent-worker-both", "fast-agent-worker-both", "fast-agent-worker-cards"}
    own, fast = (made["deployment", f"{kind}-both"]["spec"] for kind in ("agent-worker", "fast-agent-worker"))
    [service] = fast["template"]["spec"]["containers"]
    assert (service["image"], service["args"]) == ("example.com:5000/pallas/fast-agent-worker:1", ["fast_agent_worker"])
    assert {"name": "PALLAS_SLOTS", "value": "8"} in service["env"]
    addresses = {"name": "PALLAS_GATEWAY_URLS", "value": "http://agent-gateway:8080,https://agents.example.com"}
    assert addresses in service["env"]
    assert addresses not in own["template"]["spec"]["containers"][0]["env"]
    assert fast["template"]["spec"]["volumes"] == own["template"]["spec"]["volumes"]
    assert not own["selector"]["matchLabels"].items() <= fast["template"]["metadata"]["labels"].items()
    scaler = made["scaledobject", "fast-agent-worker-cards"]["spec"]
    assert scaler["scaleTargetRef"]["name"] == "fast-agent-worker-cards"
    assert scaler["triggers"][0]["metadata"] == {"valueLocation": 'wanted{team="cards"}', "targetValue": "8"}
    assert "..agent-cards..clerk.md" in "".join(made["configmap", "team-cards"]["data"])
    assert cluster.apply(cluster.plan(both)) == {}


def test_an_image_with_a_digest_does_not_say_which_one_fast_agent_worker_has() -> None:
    assert fast_agent_image("agent-worker:1") == "fast-agent-worker:1"
    with pytest.raises(Refused, match="fast-agent-image"):
        fast_agent_image("example.com/agent-worker@sha256:0123")
