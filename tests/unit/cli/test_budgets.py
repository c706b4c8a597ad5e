"""`pallas budgets`: whose budget the options name, and what is refused."""

import pytest
from tests.requirements import requirement

from pallas_cli.commands.budgets import Whose, whose_of
from pallas_cli.refused import Refused
from pallas_contracts.costs import granted_budget
from pallas_contracts.errors import Rejected
from pallas_contracts.message import utc_now
from pallas_contracts.turns import Principal

ADA = Principal(type="user", id="ada:1")


@requirement("K-cost-4")
def test_a_budget_is_of_a_team_a_caller_or_every_one() -> None:
    assert whose_of("demo", None, None) == Whose("team", "demo")
    assert whose_of(None, "user:ada:1", None) == Whose("caller", ADA.token, "user:ada:1")
    assert whose_of(None, None, "caller") == Whose("every", "caller")
    assert str(whose_of(None, "user:ada:1", None)) == "caller user:ada:1"


@pytest.mark.parametrize(
    ("team", "caller", "every", "reason"),
    [
        (None, None, None, "pass one of --team, --caller and --every"),
        ("demo", "user:ada", None, "pass one of --team, --caller and --every"),
        ("De mo", None, None, "--team 'De mo' is not the name of a team"),
        (None, "ada", None, "is not TYPE:ID with one of the types peer, user, team, turn, token"),
        (None, "user:", None, "is not TYPE:ID"),
        (None, None, "agent", "--every 'agent' is not one of team, caller"),
    ],
)
def test_other_options_are_refused(team: str | None, caller: str | None, every: str | None, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        whose_of(team, caller, every)


@pytest.mark.parametrize(
    ("field", "value"), [("tokens_per_day", -1), ("money_per_day", float("nan")), ("currency", "euro")]
)
def test_a_budget_with_a_fault_is_refused_with_the_field(field: str, value: object) -> None:
    with pytest.raises(Rejected, match=f"^{field}: "):
        granted_budget(**{"kind": "team", "name": "demo", "set_at": utc_now(), field: value})
