"""Carries out a plan in the cluster, or shows what that would change."""

from collections.abc import Iterator

from pallas_cli.k8s import kubectl
from pallas_cli.k8s.hosted import slug_of
from pallas_cli.k8s.objects import MIGRATION, TEAM
from pallas_cli.k8s.plan import Plan, Planner

_OF_A_TEAM = "scaledobject,deployment,poddisruptionbudget,configmap,secret"
_DRAINED_WITHIN = 700.0
"""Seconds: longer than the grace period of a worker."""


def preview(planner: Planner) -> str:
    """What would change; empty if nothing."""
    plan = planner.plan()
    gone = "".join(f"team {team} would leave the cluster\n" for team in plan.gone)
    return gone + kubectl.diff(plan.objects)


def carry_out(plan: Plan, *, only_teams: bool) -> Iterator[str]:
    """Change the cluster, and tell what is done.

    Teams that leave do so first, since their workers need their users until they have ended.
    """
    for team in plan.gone:
        yield from _remove(team, plan)
    yield kubectl.apply(plan.objects)
    if not only_teams:
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
