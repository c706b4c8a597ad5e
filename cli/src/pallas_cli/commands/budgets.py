"""`pallas budgets`: what teams and callers may spend on models in a day."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

import typer

from pallas_bus import kv
from pallas_bus.connection import Bus
from pallas_cli.broker import OnBroker, on_broker
from pallas_cli.completing import complete_team
from pallas_cli.costs import cost_text, document_of
from pallas_cli.options import After, Limit, Page, Yes, confirm
from pallas_cli.plain_text import print_plain, print_table
from pallas_cli.refused import Refused, WrongUsage
from pallas_contracts.catalog import BUDGETS, SPENDING
from pallas_contracts.costs import GrantedBudget, Spending, day_of, granted_budget, total_of
from pallas_contracts.errors import Rejected
from pallas_contracts.ids import is_token
from pallas_contracts.message import utc_now
from pallas_contracts.turns import Principal, caller_token

app = typer.Typer()

Team = Annotated[str | None, typer.Option(help="The budget of this team.", autocompletion=complete_team)]
Caller = Annotated[
    str | None,
    typer.Option(metavar="TYPE:ID", help="The budget of this caller over all teams, as `turns list` has it."),
]
Every = Annotated[
    str | None, typer.Option(metavar="team|caller", help="The budget of each team, or caller, without one of its own.")
]


@app.command("list")
@on_broker
def list_budgets(on: OnBroker, limit: Limit = None, after: After = None) -> None:
    """List the budgets that are set here, with today's spending."""
    on.run(show_budgets, page=Page(limit, after))


@app.command()
@on_broker
def show(on: OnBroker, team: Team = None, caller: Caller = None, every: Every = None) -> None:
    """Show one budget, with what was spent of it today."""
    on.run(show_budget, whose=whose_of(team, caller, every))


@app.command("set")
@on_broker
def set_one(
    on: OnBroker,
    team: Team = None,
    caller: Caller = None,
    every: Every = None,
    tokens_per_day: Annotated[int | None, typer.Option(help="Input and output tokens in a day; 0 allows none.")] = None,
    money_per_day: Annotated[float | None, typer.Option(help="Money in a day, in --currency.")] = None,
    currency: Annotated[
        str, typer.Option(help="Currency of --money-per-day and of the price table: three letters, such as EUR.")
    ] = "USD",
) -> None:
    """Set a budget, in place of the one before. It holds within a moment, at every gateway."""
    check_limits(tokens_per_day, money_per_day, currency)
    whose = whose_of(team, caller, every)
    on.run(set_budget, whose=whose, tokens_per_day=tokens_per_day, money_per_day=money_per_day, currency=currency)


@app.command()
@on_broker
def delete(on: OnBroker, team: Team = None, caller: Caller = None, every: Every = None, yes: Yes = False) -> None:
    """Delete a budget. Calls are not limited by it any more."""
    whose = whose_of(team, caller, every)
    confirm(f"the budget of {whose} is deleted", yes=yes, as_json=on.as_json)
    on.run(delete_budget, whose=whose)


_HEADERS = ("budget", "a day", "tokens today", "cost today")
_TYPES: tuple[str, ...] = get_args(Principal.model_fields["type"].annotation)


@dataclass(frozen=True, slots=True)
class Whose:
    """Whose budget: the key of its entry, and the caller as `type:id`."""

    kind: Literal["team", "caller", "every"]
    name: str
    caller: str | None = None

    def __str__(self) -> str:
        return f"{self.kind} {self.caller or self.name}"


def whose_of(team: str | None, caller: str | None, every: str | None) -> Whose:
    """The budget that the options name.

    Raises:
        Refused: they do not name exactly one.
    """
    if sum(given is not None for given in (team, caller, every)) != 1:
        raise WrongUsage("pass one of --team, --caller and --every")
    if team is not None:
        if not is_token(team):
            raise WrongUsage(f"--team {team!r} is not the name of a team")
        return Whose("team", team)
    if caller is not None:
        kind, _, name = caller.partition(":")
        if kind not in _TYPES or not name:
            raise WrongUsage(f"--caller {caller!r} is not TYPE:ID with one of the types {', '.join(_TYPES)}")
        return Whose("caller", caller_token(caller), caller)
    if every not in ("team", "caller"):
        raise WrongUsage(f"--every {every!r} is not one of team, caller")
    return Whose("every", every)


def check_limits(tokens_per_day: int | None, money_per_day: float | None, currency: str) -> None:
    """Check what the options of a budget say.

    Raises:
        WrongUsage: there is no limit, or the currency is none.
    """
    if tokens_per_day is None and money_per_day is None:
        raise WrongUsage("pass --tokens-per-day, --money-per-day or both")
    if not re.fullmatch("[A-Z]{3}", currency):
        raise WrongUsage(f"--currency {currency!r} is not three capital letters such as EUR")


async def set_budget(
    bus: Bus, *, whose: Whose, tokens_per_day: int | None, money_per_day: float | None, currency: str, as_json: bool
) -> None:
    """Set a budget in place of the one before, and warn if its money is in a currency that nothing is paid in.

    Raises:
        Refused: the budget is invalid.
    """
    try:
        budget = granted_budget(
            kind=whose.kind,
            name=whose.name,
            caller=whose.caller,
            tokens_per_day=tokens_per_day,
            money_per_day=money_per_day,
            currency=currency,
            set_at=utc_now(),
        )
    except Rejected as error:
        raise Refused(error.message) from error
    await kv.put(bus, BUDGETS, budget, kind=whose.kind, name=whose.name)
    if as_json:
        print(json.dumps(budget.model_dump(mode="json"), indent=2, ensure_ascii=False))
    else:
        print_plain(f"{whose}: {_limits(budget)} a day")
    paid = {each for entry in (await kv.snapshot(bus, SPENDING)).values() for each in entry.money}
    if money_per_day and paid and currency not in paid:
        print_plain(f"warning: models are paid in {', '.join(sorted(paid))}: nothing counts for {currency}", err=True)


async def delete_budget(bus: Bus, *, whose: Whose, as_json: bool) -> None:
    """Delete a budget.

    Raises:
        Refused: there is none.
    """
    budget = await _budget_of(bus, whose)
    await kv.delete(bus, BUDGETS, kind=whose.kind, name=whose.name)
    if as_json:
        print(json.dumps({**budget.model_dump(mode="json"), "deleted": True}, indent=2, ensure_ascii=False))
    else:
        print_plain(f"{whose}: no budget")


async def _budget_of(bus: Bus, whose: Whose) -> GrantedBudget:
    budget = (await _budgets(bus)).get(f"{whose.kind}.{whose.name}")
    if budget is None:
        raise Refused(f"there is no budget of {whose}", word="not_found")
    return budget


async def show_budget(bus: Bus, *, whose: Whose, as_json: bool) -> None:
    """Print one budget, with what was spent of it today.

    Raises:
        Refused: there is none.
    """
    row = (budget := await _budget_of(bus, whose)), _spent(budget, await _today(bus))
    if as_json:
        print(json.dumps(_document(*row), indent=2, ensure_ascii=False))
    else:
        print_table(_HEADERS, [_cells(*row)])


async def _today(bus: Bus) -> list[Spending]:
    today = day_of(utc_now())
    return [entry for entry in (await kv.snapshot(bus, SPENDING)).values() if entry.day == today]


async def show_budgets(bus: Bus, *, page: Page, as_json: bool) -> None:
    """Print budgets that operators have set, with what was spent of them today."""
    budgets = page.cut([budget for _, budget in sorted((await _budgets(bus)).items())], _name)
    spent = await _today(bus)
    rows = [(budget, _spent(budget, spent)) for budget in budgets]
    if as_json:
        print(json.dumps([_document(*row) for row in rows], indent=2, ensure_ascii=False))
    elif not rows:
        print_plain("No budgets are set.")
    else:
        print_table(_HEADERS, (_cells(*row) for row in rows))


async def _budgets(bus: Bus) -> dict[str, GrantedBudget]:
    """The budgets by key. A bucket without a leader is an error: it does not say that there are none."""
    entries = await kv.get_entries(bus, BUDGETS)
    return {key: budget for key, (budget, _) in entries.items() if budget is not None}


def _spent(budget: GrantedBudget, entries: list[Spending]) -> Spending | None:
    """What was spent of it today; None for the budget of every one, which is not one sum."""
    if budget.kind == "every":
        return None
    of_team = budget.kind == "team"
    return total_of(it for it in entries if budget.name == (it.team if of_team else caller_token(it.caller)))


def _document(budget: GrantedBudget, spent: Spending | None) -> dict[str, Any]:
    document = budget.model_dump(mode="json")
    return {**document, "today": document_of(spent) if spent is not None else None}


def _name(budget: GrantedBudget) -> str:
    return f"{budget.kind} {budget.caller or budget.name}"


def _cells(budget: GrantedBudget, spent: Spending | None) -> list[str]:
    used = [f"{spent.tokens:,}", cost_text(spent)] if spent is not None else ["-", "-"]
    return [_name(budget), _limits(budget), *used]


def _limits(budget: GrantedBudget) -> str:
    return " and ".join(_parts(budget))


def _parts(budget: GrantedBudget) -> Iterator[str]:
    if budget.tokens_per_day is not None:
        yield f"{budget.tokens_per_day:,} tokens"
    if budget.money is not None:
        yield str(budget.money)
