"""`pallas k8s`: the platform and its teams in a Kubernetes cluster, made of manifests and team folders."""

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
import yaml

from pallas_cli.broker import AsJson
from pallas_cli.command import Made, command
from pallas_cli.k8s import kubectl
from pallas_cli.k8s.folders import MIGRATION, TEAM, read_folders, slug_of
from pallas_cli.k8s.plan import Plan, Planner
from pallas_cli.options import Yes, confirm
from pallas_cli.plain_text import print_json
from pallas_cli.refused import Refused, WrongUsage
from pallas_cli.waiting import shown

app = typer.Typer()

Folders = Annotated[list[Path], typer.Argument(metavar="DIR", help="Team folders.")]
Manifests = Annotated[
    str,
    typer.Option(
        "--manifests", "-m", help="Overlay of deploy/k8s, file of manifests, or - for the output of `helm template`."
    ),
]
Broker = Annotated[
    Path | None,
    typer.Option("--broker", help="Folder of `make secrets`, which has the seeds of users. [default: the cluster's]"),
]
Seeds = Annotated[Path, typer.Option("--broker", help="Folder of `make secrets`, which has the seeds of users.")]
Claims = Annotated[
    list[str] | None,
    typer.Option("--claim", metavar="TEAM=NAME", help="Volume claim that has the folder of a team. May be repeated."),
]
OnlyTeams = Annotated[
    bool, typer.Option("--only-teams", help="Leave out what does not follow from these teams, for the CI of a team.")
]
Prune = Annotated[
    bool, typer.Option("--prune", help="Remove the teams without a folder here, and the rights of agents that left.")
]


def _planner(
    folders: Folders,
    manifests: Manifests,
    broker: Broker = None,
    claim: Claims = None,
    only_teams: OnlyTeams = False,
    prune: Prune = False,
) -> Planner:
    if only_teams and prune:
        raise WrongUsage("--prune removes teams without a folder here, and --only-teams leaves other teams alone")
    given = sys.stdin.read() if manifests == "-" else ""
    teams = read_folders(folders, dict(_claim(each) for each in claim or ()))
    return Planner(kubectl.read_manifests(manifests, given), teams, kubectl.get, broker, prune, only_teams)


@app.command()
def render(
    folders: Folders, manifests: Manifests, broker: Seeds, claim: Claims = None, as_json: AsJson = False
) -> None:
    """Print all objects, with the values of Secrets, and ask no cluster. Helm can run this as a post-renderer."""
    objects = replace(_planner(folders, manifests, broker, claim), get=_nothing).plan().objects
    if as_json:
        print_json({"apiVersion": "v1", "kind": "List", "items": list(objects)})
    else:
        print(yaml.safe_dump_all(objects, sort_keys=False, width=120), end="")


Planned = Annotated[Planner, Made(_planner)]


@command(app)
def diff(planner: Planned, as_json: AsJson = False) -> None:
    """Print what `apply` would change in the cluster. Exit code 1 if anything, 2 if that cannot be told."""
    try:
        with shown("asking the cluster"):
            changes = preview(planner)
    except Refused as error:
        raise WrongUsage(*error.lines) from error  # 1 means that there are changes
    print(json.dumps({"changed": bool(changes), "diff": changes}) if as_json else changes, end="\n" if as_json else "")
    raise typer.Exit(1 if changes else 0)


@command(app, "apply")
def apply_all(planner: Planned, yes: Yes = False, as_json: AsJson = False) -> None:
    """Bring the cluster to what manifests and team folders say. The same again changes nothing.

    Brokers take up new users by themselves, workers a changed folder. A team that is pruned keeps its users until its
    workers have finished their turns.
    """
    with shown("asking the cluster"):
        plan = planner.plan()
    if plan.gone:
        confirm(f"teams leave the cluster ({', '.join(plan.gone)})", yes=yes, as_json=as_json)
    done = list[str]()
    with shown("changing the cluster"):
        for text in carry_out(planner, plan):
            done += text.splitlines()
            print("" if as_json else text, end="", flush=True)
    if as_json:
        print_json({"done": done})


def _claim(given: str) -> tuple[str, str]:
    team, _, name = given.partition("=")
    if not team or not name:
        raise WrongUsage(f"--claim {given!r} is not TEAM=NAME")
    return team, name


def _nothing(kind: str, name: str, namespace: str) -> None:
    """No cluster is asked."""


_OF_A_TEAM = "scaledobject,deployment,poddisruptionbudget,configmap,secret"
_DRAINED_WITHIN = 700.0
"""Seconds: longer than the grace period of a worker."""

_TRIES = 20
"""Of several that apply at once, one succeeds at each try."""


def preview(planner: Planner) -> str:
    """What would change; empty if nothing."""
    plan = planner.plan()
    gone = "".join(f"team {team} would leave the cluster\n" for team in plan.gone)
    return gone + kubectl.diff(plan.objects)


def carry_out(planner: Planner, plan: Plan) -> Iterator[str]:
    """Change the cluster, and tell what is done.

    Teams that leave do so first, since their workers need their users until they have ended. The broker's users are
    last: if somebody else has changed them since they were read, all of it is planned and applied again.

    Raises:
        Refused: kubectl failed, or more teams would leave now.
    """
    for team in plan.gone:
        yield from _remove(team, plan)
    for _ in range(_TRIES):
        *others, users = plan.objects
        yield kubectl.apply(others)
        try:
            yield kubectl.apply([users])
        except kubectl.Changed:
            yield "somebody else has applied teams meanwhile: once again\n"
            before, plan = plan, planner.plan()
            if new := set(plan.gone).difference(before.gone):
                raise Refused(f"teams were added meanwhile, and would leave: {', '.join(sorted(new))}") from None
        else:
            break
    else:
        raise Refused("others keep changing the teams of this cluster; run this again")
    if not planner.only_teams:
        yield from _forget_old_migrations(plan)


def _remove(team: str, plan: Plan) -> Iterator[str]:
    if things := kubectl.names(_OF_A_TEAM, f"{TEAM}={slug_of(team)}", plan.namespace):
        yield f"team {team} leaves the cluster once its workers have finished their turns\n"
        # The scaler first, or it would start workers again.
        things.sort(key=lambda thing: not thing.startswith("scaledobject"))
        yield kubectl.delete(things, plan.namespace, within=_DRAINED_WITHIN)
    yield f"`pallas agents retire {team}` removes its agents from the catalogue\n"


def _forget_old_migrations(plan: Plan) -> Iterator[str]:
    """Remove the Jobs that those of the plan have replaced: their names differ in the last part."""
    present = {f"job.batch/{each['metadata']['name']}" for each in plan.objects if each["kind"] == "Job"}
    replaced = {name.rpartition("-")[0] for name in present}
    found = kubectl.names("job", f"{MIGRATION}=true", plan.namespace)
    if old := sorted(name for name in found if name not in present and name.rpartition("-")[0] in replaced):
        yield kubectl.delete(old, plan.namespace, within=60.0)
