"""Whose a coding agent is."""

from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from fleet.owners import Owners, owner_of
from pallas_contracts.agents import Allow
from pallas_contracts.fleet import FleetAgent
from pallas_contracts.message import utc_now
from pallas_contracts.turns import Principal
from pallas_runtime.http.bearers import Bearers
from pipelines.http.requests import Identities
from pipelines.metrics import make_metrics
from pipelines.settings import PipelinesSettings
from pipelines.storing.scopes import Scopes

KEY = "a-key-with-a-lot-of-characters"
ANN = Principal(type="token", id="tok_1", user="ann")


@pytest.mark.parametrize("label", ["claude-code:ann", "ann"])
async def test_an_agent_is_not_that_of_a_pipelines_api_key_whose_header_names_its_owner(label: str) -> None:
    async def resolve(_: object) -> Any:
        raise AssertionError

    settings = PipelinesSettings.from_env({"PALLAS_CONSTELLATION_API_KEYS": f"{KEY}:Execute"})
    failures = make_metrics(CollectorRegistry()).auth_failures
    identities = Identities(Scopes.of(settings), Bearers("off", resolve, failures))
    headers = [(b"authorization", f"Bearer {KEY}".encode())]
    principal = (await identities.identify(headers, "10.0.0.1", label, uses_up=False)).caller.principal
    owners = Owners(Allow())
    hers, its = (
        FleetAgent(
            name="papi",
            workspace_id="w-1",
            role="Coder",
            project="Setup",
            spec="say hello",
            created_at=utc_now(),
            owner=owner_of(maker),
        )
        for maker in (ANN, principal)
    )
    assert owners.may_use(ANN, hers)
    assert not owners.may_use(principal, hers)
    assert owners.may_use(principal, its)
    assert not owners.may_use(ANN, its)
