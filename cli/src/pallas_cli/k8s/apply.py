"""Carries out a plan in the cluster, or shows what that would change."""

from collections.abc import Iterator

from pallas_cli.k8s import kubectl
from pallas_cli.k8s.hosted import slug_of
from pallas_cli.k8s.objects import MIGRATION, TEAM
from pallas_cli.k8s.plan import Plan, Planner
from pallas_cli.refused import Refused

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
