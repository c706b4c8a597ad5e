"""How generated tests run: machines of states in any order of events, and requests made of an OpenAPI document."""

from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

_COMMON: dict[str, Any] = {"deadline": None, "database": None}
_SLOW = (HealthCheck.too_slow, HealthCheck.filter_too_much)


def live(machine: type[RuleBasedStateMachine], stage: object, *, lives: int, steps: int) -> None:
    """Run a machine on a stage, so many lives of so many steps each."""
    phases = (Phase.explicit, Phase.generate, Phase.shrink)
    given = settings(
        max_examples=lives, stateful_step_count=steps, phases=phases, suppress_health_check=_SLOW, **_COMMON
    )
    run_state_machine_as_test(type("OnStage", (machine,), {"stage": stage}), settings=given)


def generated(examples: int) -> settings:
    """So many generated requests, which are not made smaller when one fails."""
    unchecked = (*_SLOW, HealthCheck.data_too_large)
    phases = (Phase.explicit, Phase.generate)
    return settings(max_examples=examples, phases=phases, suppress_health_check=unchecked, **_COMMON)
