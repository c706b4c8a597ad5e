"""The rules of the log hold in every order of deliveries, deaths, late acknowledgements, outcomes and cancels."""

import pytest
from tests.integration.turn_life.machine import TurnLife
from tests.integration.turn_life.stage import a_stage
from tests.lives import live


@pytest.mark.timeout(180)
def test_a_turn_keeps_the_rules_of_its_life_in_every_order_of_events(nats_url: str) -> None:
    with a_stage(nats_url) as stage:
        live(TurnLife, stage, lives=100, steps=20)
