"""The component `deploy/k8s/components/prices`: the workers of a team read the price table that is in it."""

from pathlib import Path

from tests.deployment.kubernetes import NEWEST, OLDEST, Object, prices_of, variables, with_component
from tests.deployment.schemas import accept
from tests.deployment.services import DEMO

from pallas_cli.broker_config.write import BrokerFolder
from pallas_cli.k8s.folders import read_folders
from pallas_cli.k8s.plan import Planner
from pallas_teams.prices import load_prices


def test_workers_of_a_team_read_the_prices(tmp_path: Path) -> None:
    BrokerFolder(tmp_path / "broker").write_users([])
    made = with_component("production", "prices", tmp_path)
    plan = Planner(made, read_folders([DEMO], {}), lambda _kind, _name, _namespace: None, tmp_path / "broker").plan()
    worker = of(plan.objects, "Deployment", "agent-worker-demo")
    name, folder = prices_of(worker["spec"]["template"])
    assert Path(variables(worker["spec"]["template"])["PALLAS_PRICES"]) == folder / "prices.yaml"
    prices = of(plan.objects, "ConfigMap", name)
    (tmp_path / "prices.yaml").write_text(prices["data"]["prices.yaml"], "utf-8")
    assert "offline" in load_prices(tmp_path / "prices.yaml").prices
    for each in (worker, prices):
        for version in (OLDEST, NEWEST):
            accept(each, version)


def of(objects: list[Object], kind: str, name: str) -> Object:
    [found] = [each for each in objects if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    return found
