"""The rules of the log hold in every order of deliveries, deaths, late acknowledgements, outcomes and cancels."""

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from tests.integration.turn_life.machine import TurnLife
from tests.integration.turn_life.stage import a_stage

LIVES = settings(
    max_examples=100,
    stateful_step_count=20,
    deadline=None,
    database=None,
    phases=(Phase.explicit, Phase.generate, Phase.shrink),
    suppress_health_check=(HealthCheck.too_slow, HealthCheck.filter_too_much),
)


@pytest.mark.timeout(180)
def test_a_turn_keeps_the_rules_of_its_life_in_every_order_of_events(nats_url: str) -> None:
    with a_stage(nats_url) as stage:
        run_state_machine_as_test(type("OnStage", (TurnLife,), {"stage": stage}), settings=LIVES)
