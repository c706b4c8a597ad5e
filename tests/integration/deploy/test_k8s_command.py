"""`pallas k8s` with kubectl itself, against a small API server: what is applied, what is shown, what is removed."""

import asyncio
import copy
import os
import sys
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from deploy.make_secrets import make_secrets
from tests.debian_tools import tool
from tests.deployment.kubernetes import FOLDER, built, container, of_kind
from tests.deployment.services import DEMO
from tests.integration.deploy.api_server import ApiServer, api_server
from tests.unit.cli.k8s.manifests import a_team

PRODUCTION = FOLDER / "overlays" / "production"


@dataclass
class Cluster:
    """A cluster with the whole platform and the demo team. `server` says what is in it, `path` has other programs."""

    server: ApiServer
    folder: Path
    path: str = os.environ["PATH"]

    @property
    def few(self) -> Path:
        """Only the manifests that have to do with teams."""
        return self.folder / "few.yaml"

    async def pallas(self, *words: str | Path, manifests: Path = PRODUCTION) -> tuple[int | None, str]:
        """Run `pallas k8s`; returns exit code and output."""
        command, *rest = map(str, words)
        environ = os.environ | {
            "KUBECONFIG": str(self.folder / "kubeconfig"),
            "PATH": f"{self.folder}{os.pathsep}{self.path}",
        }
        line = ("k8s", command, "--manifests", str(manifests), *rest)
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "pallas_cli", *line, env=environ, stdout=PIPE, stderr=STDOUT
        )
        output, _ = await process.communicate()
        return process.returncode, output.decode()

    async def done(self, *words: str | Path, manifests: Path = PRODUCTION) -> str:
        """The output of a command that succeeds."""
        code, output = await self.pallas(*words, manifests=manifests)
        assert code == 0, output
        return output


@pytest.fixture(scope="module")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Cluster]:
    """A cluster to which everything was applied once, with the seeds of a folder that is not needed any more."""
    folder = tmp_path_factory.mktemp("cluster")
    make_secrets(folder / "deploy" / "secrets")
    (folder / "kubectl").symlink_to(tool("kubectl"))
    few = [each for each in built("production") if each["metadata"]["name"] in ("agent-worker", "health-monitor")]
    (folder / "few.yaml").write_text(yaml.safe_dump_all(few), "utf-8")
    async with api_server(folder) as server:
        made = Cluster(server, folder)
        await made.done("apply", DEMO, "--broker", folder / "deploy")
        yield made


async def test_the_whole_platform_is_applied_by_one_owner(cluster: Cluster) -> None:
    cluster.server.changes()
    assert cluster.server.applied_by == {"pallas"}
    kept = cluster.server.objects
    assert {
        ("deployments", "agent-worker-demo"),
        ("statefulsets", "nats"),
        ("scaledobjects", "agent-worker-demo"),
    } <= set(kept)
    assert "# agent-worker.demo\n" in kept["configmaps", "broker-users"]["data"]["users.conf"]


async def test_the_same_again_shows_and_changes_nothing(cluster: Cluster) -> None:
    assert await cluster.pallas("diff", DEMO, manifests=cluster.few) == (0, "")
    await cluster.done("apply", DEMO)
    assert cluster.server.changes() == set()


async def test_a_new_team_is_shown_applied_and_removed_again(cluster: Cluster, tmp_path: Path) -> None:
    folder = a_team(tmp_path / "red", "red", "one", fastagent_secrets_yaml="anthropic: {api_key: s3cret-key}")
    code, shown = await cluster.pallas("diff", folder, "--only-teams", manifests=cluster.few)
    assert (code, "s3cret-key" in shown, "ScaledObject" in shown) == (1, False, True)
    assert cluster.server.changes() == set()
    await cluster.done("apply", folder, "--only-teams")
    of_red = {
        (kind, "agent-worker-red") for kind in ("deployments", "scaledobjects", "poddisruptionbudgets", "secrets")
    }
    of_red |= {("configmaps", "team-red"), ("secrets", "team-red")}
    shared = {("configmaps", "broker-users"), ("deployments", "health-monitor")}
    assert cluster.server.changes() == of_red | shared

    code, said = await cluster.pallas("apply", DEMO, "--prune", manifests=cluster.few)
    assert (code, "teams leave the cluster (red)" in said) == (2, True)
    assert cluster.server.changes() == set()
    said = await cluster.done("apply", DEMO, "--prune", "--yes", manifests=cluster.few)
    assert "pallas agents retire red" in said
    assert cluster.server.changes() == of_red | shared
    assert not of_red & set(cluster.server.objects)


async def test_teams_that_are_applied_at_once_lose_nothing(cluster: Cluster, tmp_path: Path) -> None:
    teams = ("green", "blue")
    folders = [a_team(tmp_path / team, team, "one") for team in teams]
    await asyncio.gather(*(cluster.done("apply", each, "--only-teams", manifests=cluster.few) for each in folders))
    kept = cluster.server.objects
    monitored = container(kept["deployments", "health-monitor"]["spec"]["template"])["env"]
    [paths] = [each["value"] for each in monitored if each["name"] == "PALLAS_TEAMS"]
    for team in teams:
        assert f"# agent-worker.{team}\n" in kept["configmaps", "broker-users"]["data"]["users.conf"]
        assert f"/teams/{team}" in paths.split(":")
    await cluster.done("apply", DEMO, "--prune", "--yes", manifests=cluster.few)
    cluster.server.changes()


async def test_the_jobs_of_a_version_before_are_removed(cluster: Cluster, tmp_path: Path) -> None:
    job = copy.deepcopy(of_kind("production", "Job")["workspaces-migrate"])
    container(job["spec"]["template"])["image"] += "-next"
    (tmp_path / "next.yaml").write_text(
        yaml.safe_dump_all([job, *yaml.safe_load_all(cluster.few.read_text())]), "utf-8"
    )
    await cluster.done("apply", DEMO, manifests=tmp_path / "next.yaml")
    [old, new] = cluster.server.changes()
    assert {old[1].rpartition("-")[0], new[1].rpartition("-")[0]} == {"workspaces-migrate"}
    assert len([name for plural, name in cluster.server.objects if plural == "jobs"]) == 3


async def test_what_the_cluster_refuses_is_told(cluster: Cluster, tmp_path: Path) -> None:
    wrong = copy.deepcopy(of_kind("production", "Deployment")["agent-worker"])
    wrong["spec"]["colour"] = "red"
    (tmp_path / "wrong.yaml").write_text(yaml.safe_dump(wrong), "utf-8")
    code, said = await cluster.pallas("apply", DEMO, manifests=tmp_path / "wrong.yaml")
    assert (code, "'colour' was unexpected" in said) == (1, True), said
    changed = copy.deepcopy(of_kind("production", "Deployment")["health-monitor"])
    changed["spec"]["replicas"] = 2
    (tmp_path / "wrong.yaml").write_text(yaml.safe_dump_all([changed, wrong]), "utf-8")
    code, said = await cluster.pallas("diff", DEMO, manifests=tmp_path / "wrong.yaml")
    assert (code, "'colour' was unexpected" in said) == (2, True), said
    lonely = Cluster(cluster.server, tmp_path)
    (tmp_path / "few.yaml").write_text(yaml.safe_dump(of_kind("production", "Deployment")["agent-worker"]), "utf-8")
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump({"kind": "Config", "apiVersion": "v1"}), "utf-8")
    (tmp_path / "kubectl").symlink_to(tool("kubectl"))
    code, said = await lonely.pallas("diff", DEMO, manifests=lonely.few)
    assert (code, said.count("\n"), "refused" in said) == (2, 2, True), said


async def test_without_kubectl_the_command_says_so(cluster: Cluster, tmp_path: Path) -> None:
    lonely = Cluster(cluster.server, tmp_path, path="")
    code, said = await lonely.pallas("apply", DEMO)
    assert (code, said) == (1, "pallas: kubectl is not installed, or not on PATH\n")
