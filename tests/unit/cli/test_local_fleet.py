"""A small fleet without Coder: what `pallas up` makes of its settings."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.cli.test_table import PLAN

from pallas_cli.refused import Refused
from pallas_cli.stack.local_fleet import LocalFleet, local_fleet
from pallas_cli.stack.table import all_specs

ON = {"PALLAS_FLEET_LOCAL": "true"}
SHELL = "/bin/sh -c 'read x'"


@pytest.mark.parametrize(
    ("environ", "text"),
    [
        ({"PALLAS_FLEET_LOCAL": "perhaps"}, "has to be true or false"),
        ({"PALLAS_FLEET_PROGRAM": SHELL}, "PALLAS_FLEET_PROGRAM needs PALLAS_FLEET_LOCAL=true"),
        ({"PALLAS_FLEET_LOCAL": "false", "PALLAS_FLEET_PASS": "HOME"}, "PALLAS_FLEET_PASS needs"),
        (ON | {"PALLAS_CODER_URL": "https://coder.example"}, "set only one of them"),
        (ON | {"PALLAS_FLEET_PROGRAM": "sh -c 'x"}, "is no command"),
        (ON | {"PALLAS_FLEET_PROGRAM": "no-such-program --fast"}, "there is no program 'no-such-program'"),
        (ON | {"PALLAS_FLEET_PASS": "A_KEY, NO_KEY", "A_KEY": "sesame"}, "NO_KEY is not set"),
    ],
)
def test_settings_that_cannot_be_are_refused(environ: dict[str, str], text: str) -> None:
    with pytest.raises(Refused, match=text) as refused:
        local_fleet(environ)
    assert "sesame" not in str(refused.value)


def test_a_local_fleet_runs_the_demo_agent_unless_a_program_is_named() -> None:
    assert local_fleet({}) is None
    assert local_fleet(ON) == LocalFleet()
    assert LocalFleet().arguments == ()


async def test_the_stand_in_runs_the_program_with_the_variables_that_are_passed(tmp_path: Path) -> None:
    local = local_fleet(ON | {"PALLAS_FLEET_PROGRAM": SHELL, "PALLAS_FLEET_PASS": "A_KEY", "A_KEY": "sesame"})
    assert "sesame" not in repr(local)
    plan = replace(PLAN, data=tmp_path, local=local)
    specs = {spec.name: spec for spec in all_specs(plan)}
    launch = await specs["coder"].prepare()
    assert launch.command[:4] == (sys.executable, "-P", "-m", "pallas_demo.coder")
    assert launch.command[-4:] == ("--program", SHELL, "--pass", "A_KEY")
    assert launch.env["A_KEY"] == "sesame"
    assert "A_KEY" not in (await specs["fleet"].prepare()).env
