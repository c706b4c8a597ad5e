"""Makes an object for each team out of the manifests that are for each team, and mounts all teams where all are read.

The manifests name one team, `team`: its ConfigMap, its folder `/teams/team`, its label in the trigger of the
autoscaler, and the Secret with the seed of its workers. What is made of them names a real team. A team with agents of
fast-agent has workers for these, made of the same manifests with another image and the addresses of the gateways.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from hashlib import sha256

from pallas_cli.k8s.folders import (
    FAST_AGENT,
    FAST_AGENT_IMAGE,
    FAST_AGENT_TEAM,
    FOR_EACH,
    MIGRATION,
    TEAM,
    HostedTeam,
    Object,
)
from pallas_cli.refused import Refused

_MANIFEST = "team"
_FOLDERS = "/teams"
_FAST = "fast-"
"""What stands in front of `agent-worker` in names of objects and images of fast-agent-worker."""

_SLOTS = "8"
"""The slots of a fast-agent-worker."""

_GATEWAY = "agent-gateway"
_GATEWAY_URLS = "PALLAS_GATEWAY_URLS"


def stamped(manifests: Iterable[Object], teams: Sequence[HostedTeam], gateways: Sequence[str] = ()) -> Iterator[Object]:
    """The objects of all teams. `gateways` are the addresses of the gateways, for the workers of fast-agent.

    Raises:
        Refused: nothing says which image the workers of fast-agent have.
    """
    for manifest in manifests:
        if manifest["metadata"].get("annotations", {}).get(FOR_EACH) == _MANIFEST:
            for team in teams:
                yield from (_made_for(deepcopy(manifest), team, runtime, gateways) for runtime in team.runtimes)
        elif manifest["kind"] == "Job":
            yield _named_by_content(deepcopy(manifest))
        else:
            yield _with_all(deepcopy(manifest), teams)


def gateway_urls(manifests: Iterable[Object]) -> list[str]:
    """The addresses of the gateways: in the cluster, and for callers, as their manifest says."""
    for manifest in manifests:
        if manifest["kind"] == "Deployment" and manifest["metadata"]["name"] == _GATEWAY:
            [container] = manifest["spec"]["template"]["spec"]["containers"]
            public = [each["value"] for each in container.get("env", ()) if each["name"] == "PALLAS_PUBLIC_URL"]
            return [f"http://{_GATEWAY}:8080", *public]
    return []


def _made_for(made: Object, team: HostedTeam, runtime: str, gateways: Sequence[str]) -> Object:
    if runtime != FAST_AGENT:
        return _of_team(made, team, TEAM)
    _for_fast_agent(made, gateways)
    return _of_team(made, team, FAST_AGENT_TEAM)


def _for_fast_agent(made: Object, gateways: Sequence[str]) -> None:
    """Make the worker a fast-agent-worker, which has fewer slots. At the broker it is an agent-worker all the same."""
    about, spec = made["metadata"], made["spec"]
    image = about["annotations"].pop(FAST_AGENT_IMAGE, None)
    about["name"] = _FAST + about["name"]
    if "scaleTargetRef" in spec:
        spec["scaleTargetRef"]["name"] = _FAST + spec["scaleTargetRef"]["name"]
        for trigger in spec["triggers"]:
            trigger["metadata"]["targetValue"] = _SLOTS
    for container in spec.get("template", {}).get("spec", {}).get("containers", ()):
        container["image"] = image or fast_agent_image(container["image"])
        container["args"] = ["fast_agent_worker"]
        given = {variable["name"]: variable for variable in container.get("env", ())}
        if "PALLAS_SLOTS" in given:
            given["PALLAS_SLOTS"]["value"] = _SLOTS
        if gateways and _GATEWAY_URLS not in given:
            container.setdefault("env", []).append({"name": _GATEWAY_URLS, "value": ",".join(gateways)})


def fast_agent_image(worker: str) -> str:
    """The image of fast-agent-worker that is named like the one of agent-worker.

    Raises:
        Refused: that one is named by its digest, which no other image has.
    """
    if "@" in worker:
        raise Refused(
            f"{worker} has a digest, so nothing says which image fast-agent-worker has: name that in the annotation "
            f"{FAST_AGENT_IMAGE} of agent-worker's Deployment"
        )
    repository, _, name = worker.rpartition("/")
    return f"{repository}/{_FAST}{name}".removeprefix("/")


def _of_team(made: Object, team: HostedTeam, label: str) -> Object:
    about, spec = made["metadata"], made["spec"]
    about["name"] = f"{about['name']}-{team.slug}"
    del about["annotations"][FOR_EACH]
    about["annotations"].pop(FAST_AGENT_IMAGE, None)
    if not about["annotations"]:
        del about["annotations"]
    about.setdefault("labels", {})[TEAM] = team.slug
    if "selector" in spec:
        spec["selector"]["matchLabels"][label] = team.slug
    if "scaleTargetRef" in spec:
        spec["scaleTargetRef"]["name"] += f"-{team.slug}"
        for trigger in spec["triggers"]:
            where = trigger["metadata"]
            where["valueLocation"] = where["valueLocation"].replace('team="team"', f"team={json.dumps(team.name)}")
    if "template" in spec:
        spec["template"]["metadata"]["labels"][label] = team.slug
        _own_seed(spec["template"]["spec"], team)
        _mount(spec["template"]["spec"], [team])
    return made


def _own_seed(pod: Object, team: HostedTeam) -> None:
    """Take the seed from the Secret of the team's own workers."""
    for source in (source for volume in pod["volumes"] for source in volume.get("projected", {}).get("sources", ())):
        if source.get("secret", {}).get("name") == "agent-worker":
            source["secret"]["name"] += f"-{team.slug}"


def _with_all(made: Object, teams: Sequence[HostedTeam]) -> Object:
    if made["kind"] in ("Deployment", "StatefulSet"):
        _mount(made["spec"]["template"]["spec"], teams)
    return made


def _mount(pod: Object, teams: Sequence[HostedTeam]) -> None:
    """Mount these teams where the manifest mounts `team`, each under its own name."""
    if not any(volume["name"] == _MANIFEST for volume in pod.get("volumes", ())):
        return
    pod["volumes"] = [volume for volume in pod["volumes"] if volume["name"] != _MANIFEST]
    pod["volumes"] += [{"name": f"team-{team.slug}", **team.volume} for team in teams]
    for container in pod["containers"]:
        mounts = [mount for mount in container["volumeMounts"] if mount["name"] != _MANIFEST]
        container["volumeMounts"] = mounts + [
            {"name": f"team-{team.slug}", "mountPath": f"{_FOLDERS}/{team.name}", "readOnly": True} for team in teams
        ]
        for variable in container.get("env", ()):
            if variable["name"] == "PALLAS_TEAMS":
                variable["value"] = ":".join(f"{_FOLDERS}/{team.name}" for team in teams)


def _named_by_content(job: Object) -> Object:
    """A Job under a name of its content, since a Job cannot be changed."""
    digest = sha256(json.dumps(job["spec"], sort_keys=True).encode()).hexdigest()[:8]
    job["metadata"]["name"] += f"-{digest}"
    job["metadata"].setdefault("labels", {})[MIGRATION] = "true"
    return job
