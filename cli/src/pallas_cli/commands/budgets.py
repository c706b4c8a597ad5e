"""`pallas budgets`: what teams and callers may spend on models in a day."""

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal, get_args

import typer

from pallas_bus import kv
from pallas_bus.connection import Bus
from pallas_cli.command import Made, Paged, command
from pallas_cli.completing import complete_team
from pallas_cli.plain_text import print_answer, print_list, print_plain
from pallas_cli.refused import Refused, WrongUsage
from pallas_cli.spent import cost_text, document_of
from pallas_contracts.catalog import BUDGETS, SPENDING
from pallas_contracts.costs import GrantedBudget, Spending, day_of, granted_budget, total_of
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


def whose_of(team: Team = None, caller: Caller = None, every: Every = None) -> Whose:
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


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a budget, of which there is one at least."""

    tokens_per_day: Annotated[int | None, typer.Option(help="Input and output tokens in a day; 0 allows none.")] = None
    money_per_day: Annotated[float | None, typer.Option(help="Money in a day, in --currency.")] = None
    currency: Annotated[
        str, typer.Option(help="Currency of --money-per-day and of the price table: three letters, such as EUR.")
    ] = "USD"

    def __post_init__(self) -> None:
        if self.tokens_per_day is None and self.money_per_day is None:
            raise WrongUsage("pass --tokens-per-day, --money-per-day or both")
        if not re.fullmatch("[A-Z]{3}", self.currency):
            raise WrongUsage(f"--currency {self.currency!r} is not three capital letters such as EUR")


Mine = Annotated[Whose, Made(whose_of)]


@command(app, "list")
async def show_budgets(bus: Bus, *, page: Paged, as_json: bool) -> None:
    """List the budgets that are set here, with today's spending."""
    budgets = page.cut([budget for _, budget in sorted((await _budgets(bus)).items())], _name)
    spent = await _today(bus)
    rows = [(budget, _spent(budget, spent)) for budget in budgets]
    documents, cells = [_document(*row) for row in rows], (_cells(*row) for row in rows)
    print_list(documents, _HEADERS, cells, nothing="No budgets are set.", as_json=as_json)


@command(app, "show")
async def show_budget(bus: Bus, *, whose: Mine, as_json: bool) -> None:
    """Show one budget, with what was spent of it today."""
    budget = await _budget_of(bus, whose)
    spent = _spent(budget, await _today(bus))
    print_list(_document(budget, spent), _HEADERS, [_cells(budget, spent)], as_json=as_json)


@command(app, "set")
async def set_budget(bus: Bus, *, whose: Mine, limits: Annotated[Limits, Made(Limits)], as_json: bool) -> None:
    """Set a budget, in place of the one before. It holds within a moment, at every gateway."""
    whom = {"kind": whose.kind, "name": whose.name, "caller": whose.caller}
    budget = granted_budget(**whom, **asdict(limits), set_at=utc_now())
    await kv.put(bus, BUDGETS, budget, kind=whose.kind, name=whose.name)
    print_answer(budget.model_dump(mode="json"), f"{whose}: {_limits(budget)} a day", as_json=as_json)
    paid = {each for entry in (await kv.snapshot(bus, SPENDING)).values() for each in entry.money}
    if limits.money_per_day and paid and limits.currency not in paid:
        known = ", ".join(sorted(paid))
        print_plain(f"warning: models are paid in {known}: nothing counts for {limits.currency}", err=True)


@command(app, "delete", sure="the budget of {whose} is deleted")
async def delete_budget(bus: Bus, *, whose: Mine, as_json: bool) -> None:
    """Delete a budget. Calls are not limited by it any more."""
    budget = await _budget_of(bus, whose)
    await kv.delete(bus, BUDGETS, kind=whose.kind, name=whose.name)
    print_answer({**budget.model_dump(mode="json"), "deleted": True}, f"{whose}: no budget", as_json=as_json)


async def _budget_of(bus: Bus, whose: Whose) -> GrantedBudget:
    budget = (await _budgets(bus)).get(f"{whose.kind}.{whose.name}")
    if budget is None:
        raise Refused(f"there is no budget of {whose}", word="not_found")
    return budget


async def _today(bus: Bus) -> list[Spending]:
    today = day_of(utc_now())
    return [entry for entry in (await kv.snapshot(bus, SPENDING)).values() if entry.day == today]


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
