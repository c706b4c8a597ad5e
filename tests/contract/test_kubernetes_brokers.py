"""The brokers of `deploy/k8s`: they drain and recover in time, stay within their memory, and share no node.

None is started on a full disk, where it would remove streams.
"""

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from tests.deployment.kubernetes import NAME, OVERLAYS, Object, container, of_kind, pods
from tests.embedded import nats_binary

each_overlay = pytest.mark.parametrize("overlay", OVERLAYS)
MIB = 1024 * 1024
UNITS = {"Mi": MIB, "MiB": MIB, "Gi": 1024 * MIB, "GiB": 1024 * MIB, "GB": 1000**3}
SLOWEST_READ = 30_000_000
"""Bytes a second of a disk on which a store can be read again before the startup probe gives up."""

TO_WRITE = 30
"""Seconds that a broker has, after its clients have left, to write the state of its streams to disk."""


def size(text: str) -> float:
    """A size in bytes."""
    found = re.fullmatch(r"(\d+)(\w+)", text)
    assert found is not None
    return int(found[1]) * UNITS[found[2]]


def configuration(overlay: str) -> str:
    """The configuration of all brokers."""
    [found] = [each for name, each in of_kind(overlay, "ConfigMap").items() if name.startswith("nats-")]
    return found["data"]["nats.conf"]


def setting(overlay: str, name: str) -> str:
    """One of its values."""
    found = re.search(rf'^\s*{name}: "?(\w+)"?$', configuration(overlay), re.MULTILINE)
    assert found is not None
    return found[1]


def seconds(text: str) -> int:
    """A duration in seconds."""
    assert text.endswith("s")
    return int(text[:-1])


def spec(overlay: str) -> Object:
    """The pod of a broker."""
    return pods(overlay)["nats"]["spec"]


@each_overlay
def test_a_broker_has_sent_its_clients_away_before_its_grace_period_ends(overlay: str) -> None:
    drain = seconds(setting(overlay, "lame_duck_duration"))
    assert seconds(setting(overlay, "lame_duck_grace_period")) < drain
    assert spec(overlay)["terminationGracePeriodSeconds"] >= drain + TO_WRITE
    assert container(pods(overlay)["nats"])["lifecycle"]["preStop"]["exec"]["command"][-1].startswith(
        "nats-server --signal ldm="
    )


@each_overlay
def test_a_broker_may_read_its_whole_store_again_before_it_is_restarted(overlay: str) -> None:
    probe = container(pods(overlay)["nats"])["startupProbe"]
    allowed = probe["periodSeconds"] * probe["failureThreshold"]
    assert allowed >= size(setting(overlay, "max_file_store")) / SLOWEST_READ


@each_overlay
def test_a_broker_waits_for_room_on_its_disk_and_then_takes_its_arguments(overlay: str, tmp_path: Path) -> None:
    [found] = [each for name, each in of_kind(overlay, "ConfigMap").items() if name.startswith("nats-")]
    broker, binary = container(pods(overlay)["nats"]), nats_binary()
    assert (broker["command"], {"name": "data", "mountPath": "/data"} in broker["volumeMounts"]) == (
        ["sh", "/etc/nats/start.sh"],
        True,
    )
    assert binary is not None
    script = tmp_path / "start.sh"
    script.write_text(found["data"]["start.sh"])
    path = f"{binary.parent}:{os.environ['PATH']}"
    with subprocess.Popen(
        ["sh", script, "--version"],
        env={"PATH": path, "STORE": str(tmp_path), "ROOM_KIB": str(2**60)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as waiting:
        assert waiting.stderr is not None
        assert waiting.stdout is not None
        assert waiting.stderr.readline() == f"the disk of {tmp_path} is full: waiting for room\n"
        waiting.send_signal(signal.SIGTERM)
        assert (waiting.wait(10), waiting.stdout.read()) == (0, "")
    environ = {"PATH": path, "STORE": str(tmp_path)}
    assert subprocess.check_output(["sh", script, "--version"], env=environ).startswith(b"nats-server: v")


@each_overlay
def test_a_broker_collects_garbage_before_it_reaches_its_memory_limit(overlay: str) -> None:
    broker = container(pods(overlay)["nats"])
    limit = size(broker["resources"]["limits"]["memory"])
    [goal] = [each["value"] for each in broker["env"] if each["name"] == "GOMEMLIMIT"]
    assert 0.85 * limit <= size(goal) <= 0.95 * limit


@each_overlay
def test_two_brokers_never_share_a_node_and_one_is_disrupted_at_a_time(overlay: str) -> None:
    [rule] = spec(overlay)["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert (rule["topologyKey"], rule["labelSelector"]["matchLabels"]) == ("kubernetes.io/hostname", {NAME: "nats"})
    assert of_kind(overlay, "PodDisruptionBudget")["nats"]["spec"]["maxUnavailable"] == 1


@each_overlay
def test_what_reloads_a_broker_has_no_privileges_and_ends_after_it(overlay: str) -> None:
    [beside] = spec(overlay)["initContainers"]
    broker = container(pods(overlay)["nats"])
    assert (beside["restartPolicy"], beside["image"]) == ("Always", broker["image"])
    assert beside["securityContext"] == broker["securityContext"]
    assert all(mount["readOnly"] for mount in beside["volumeMounts"])
