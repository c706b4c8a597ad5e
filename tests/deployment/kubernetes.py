"""`deploy/k8s` as Kubernetes would get it: overlays built by kubectl, and the network policies in them as pairs."""

import shutil
import subprocess
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from tests.contract.tree import ROOT
from tests.debian_tools import tool
from tests.journeys import OUTSIDE, Connection

FOLDER = ROOT / "deploy" / "k8s"
OVERLAYS = ("local", "production")
OLDEST, NEWEST = "1.30", "1.37"
"""Versions of Kubernetes: the manifests are for the oldest, the newest that is checked, and those in between."""

OLDEST_KEDA = "2.17"

ANYBODY = "anybody"
"""Whoever is not a pod of Pallas."""

NAME = "app.kubernetes.io/name"

type Object = dict[str, Any]


@cache
def built(overlay: str) -> list[Object]:
    return _built(FOLDER / "overlays" / overlay)


def _built(folder: Path) -> list[Object]:
    command = [tool("kubectl"), "kustomize", folder]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert run.returncode == 0, run.stderr
    return list(yaml.safe_load_all(run.stdout))


def of_kind(overlay: str, *kinds: str) -> dict[str, Object]:
    """The objects of these kinds, by name."""
    return {each["metadata"]["name"]: each for each in built(overlay) if each["kind"] in kinds}


def pods(overlay: str) -> dict[str, Object]:
    """The templates of all pods, by the name of what makes them."""
    makers = of_kind(overlay, "Deployment", "StatefulSet", "Job")
    return {name: maker["spec"]["template"] for name, maker in makers.items()}


def container(pod: Object) -> Object:
    """A pod's only container."""
    [only] = pod["spec"]["containers"]
    return only


def variables(pod: Object) -> dict[str, str]:
    """The variables of a pod's container; a value that only the cluster knows is given as its path there."""
    variables: list[Object] = container(pod).get("env", [])
    return {
        each["name"]: each["value"] if "value" in each else each["valueFrom"]["fieldRef"]["fieldPath"]
        for each in variables
    }


def prices_of(pod: Object) -> tuple[str, Path]:
    """The ConfigMap with the prices of models, and the folder where a pod has it."""
    [volume] = [each for each in pod["spec"]["volumes"] if each["name"] == "prices"]
    [mount] = [each for each in container(pod)["volumeMounts"] if each["name"] == "prices"]
    return volume["configMap"]["name"], Path(mount["mountPath"])


def with_component(overlay: str, component: str, place: Path) -> list[Object]:
    """Every object of an overlay that has a component too, in a copy of the folder in `place`."""
    copied = shutil.copytree(FOLDER, place / "k8s", dirs_exist_ok=True)
    folder = copied / "overlays" / f"{overlay}-with-{component}"
    folder.mkdir(exist_ok=True)
    wanted = {"resources": [f"../{overlay}"], "components": [f"../../components/{component}"], "namespace": "pallas"}
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(wanted), "utf-8")
    return _built(folder)


def let_in(overlay: str) -> set[Connection]:
    """Who may connect to whom as the receiving end's policies say."""
    return set(_allowed(overlay, "ingress", "from"))


def let_out(overlay: str) -> set[Connection]:
    """The same as the other end's policies say."""
    return {(source, destination) for destination, source in _allowed(overlay, "egress", "to")}


def ports_let(overlay: str) -> Iterator[tuple[str, int]]:
    """Every port that a policy opens, with the pod whose port it is."""
    for way, peers in (("ingress", "from"), ("egress", "to")):
        for policy in of_kind(overlay, "NetworkPolicy").values():
            for rule in policy["spec"].get(way, []):
                own = _selected(overlay, policy["spec"]["podSelector"])
                ends = own if way == "ingress" else set(_peers(overlay, rule[peers])) - {ANYBODY}
                yield from ((end, port["port"]) for end in ends for port in rule["ports"])


def _allowed(overlay: str, way: str, peers: str) -> Iterator[Connection]:
    """Pairs of a peer and the pod whose policy lets it."""
    for policy in of_kind(overlay, "NetworkPolicy").values():
        for rule in policy["spec"].get(way, []):
            for pod in _selected(overlay, policy["spec"]["podSelector"]):
                yield from ((peer, pod) for peer in _peers(overlay, rule.get(peers)))


def _peers(overlay: str, peers: Iterable[Object] | None) -> Iterator[str]:
    if peers is None:
        yield ANYBODY
    for peer in peers or ():
        if "podSelector" in peer:
            yield from _selected(overlay, peer["podSelector"])
        elif "ipBlock" in peer:
            yield ANYBODY


def _selected(overlay: str, selector: Object) -> set[str]:
    """The pods that a selector means, by name."""
    names = {pod["metadata"]["labels"][NAME] for pod in pods(overlay).values()}
    if wanted := selector.get("matchLabels"):
        names &= {wanted[NAME]}
    for expression in selector.get("matchExpressions", ()):
        assert (expression["key"], expression["operator"]) == (NAME, "In")
        names &= set(expression["values"])
    return names


def as_pods(pairs: Iterable[Connection]) -> set[Connection]:
    """The same connections between pods, where whoever is outside is `ANYBODY`."""
    return {(_as_pod(source), _as_pod(destination)) for source, destination in pairs}


def _as_pod(name: str) -> str:
    return ANYBODY if name in OUTSIDE else name
