"""What models cost: prices of calls, budgets of a day, and what has been spent of them.

Money is counted in billionths of a currency's unit (`nanos`), as whole numbers, so that sums do not depend on their
order. A day is a day in UTC. A caller is `type:id` of its principal.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal, Self

from pydantic import Field, StringConstraints, ValidationError

from pallas_contracts.bounds import reason_of
from pallas_contracts.errors import Rejected
from pallas_contracts.ids import Token
from pallas_contracts.message import Message

NANOS = 1_000_000_000
"""Nanos in one unit of a currency."""

MOST_TOKENS = 10**15
_MOST_TOKENS_OF_A_CALL = 10**9
MOST_MONEY = 1_000_000_000


def whole_tokens(count: object) -> int:
    """The tokens of a call as a provider reports them: some report fractions, or what can be no number of tokens."""
    if isinstance(count, int | float) and 0 < count <= _MOST_TOKENS_OF_A_CALL:
        return round(count)
    return 0


type Currency = Annotated[str, StringConstraints(pattern=r"^[A-Z]{3}$")]
type Tokens = Annotated[int, Field(ge=0, le=MOST_TOKENS)]
type Money = Annotated[float, Field(ge=0, le=MOST_MONEY, allow_inf_nan=False)]


class Cost(Message):
    """An amount of money."""

    nanos: int
    currency: Currency

    def __str__(self) -> str:
        return money_text(self.nanos, self.currency)


class Budget(Message):
    """How much may be spent in a day; None is no limit, 0 is nothing. `money_per_day` is in units of `currency`."""

    tokens_per_day: Tokens | None = None
    money_per_day: Money | None = None
    currency: Currency = "USD"

    @property
    def money(self) -> Cost | None:
        """The limit of money as an amount; None: there is none."""
        if self.money_per_day is None:
            return None
        return Cost(nanos=round(self.money_per_day * NANOS), currency=self.currency)


class TeamBudget(Budget):
    """The budget that a team sets for itself: for all of its agents together, and for each of its callers."""

    per_caller: Budget | None = None


class Allowance(Message):
    """What was left of all budgets when a turn was admitted: the most that one attempt at it may spend."""

    tokens: int | None = None
    money: tuple[Cost, ...] = ()


class GrantedBudget(Budget):
    """A budget that an operator has set (KV bucket `budgets`, key `{kind}.{name}`).

    `team`: of the team `name`, over its callers. `caller`: of one caller, over all teams; `name` is the token of its
    principal, and `caller` the principal as `type:id`. `every`: of each team, or of each caller, without one of its own
    (`name` is `team` or `caller`).
    """

    kind: Literal["team", "caller", "every"]
    name: Token
    caller: str | None = None
    set_at: datetime


def granted_budget(**fields: Any) -> GrantedBudget:
    """The budget with these fields.

    Raises:
        Rejected: one is invalid; the message names it.
    """
    try:
        return GrantedBudget.model_validate(fields)
    except ValidationError as error:
        raise Rejected(reason_of(error)) from error


class Spending(Message):
    """What one caller has spent at one team in a day (KV bucket `spending`, key `{day}.{team}.{caller}`).

    It counts the log up to `position`, in the stream that was created at `log`. `unpriced_calls` are calls of models
    without a price; `money` is nanos by currency.
    """

    day: Token
    team: Token
    caller: str
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    unpriced_calls: int = 0
    money: dict[Currency, int] = Field(default_factory=dict[str, int])
    position: int = 0
    log: str = ""

    @property
    def tokens(self) -> int:
        """All tokens, cached ones included."""
        return self.input_tokens + self.output_tokens

    def plus(self, other: "Spending", sign: int = 1) -> Self:
        """This and another one added up, or with `sign` -1 without the other; of two days, teams or callers as well."""
        currencies = self.money.keys() | other.money.keys()
        money = {each: self.money.get(each, 0) + sign * other.money.get(each, 0) for each in currencies}
        names = ("calls", "input_tokens", "output_tokens", "cached_tokens", "unpriced_calls")
        sums = {name: getattr(self, name) + sign * getattr(other, name) for name in names}
        return self.model_copy(update={**sums, "money": money})


NO_SPENDING = Spending(day="none", team="none", caller="")
"""Nothing, from which sums begin."""


def total_of(entries: Iterable[Spending]) -> Spending:
    """All of them added up, also of several days, teams or callers."""
    total = NO_SPENDING
    for entry in entries:
        total = total.plus(entry)
    return total


def model_ref(provider: str, model: str) -> str:
    """A model as team folders and price tables name it: `openai.gpt-5`, or `offline`."""
    return model if provider in ("", model) else f"{provider}.{model}"


def day_of(moment: datetime) -> str:
    """The day of a moment, as `2026-11-25`."""
    return moment.astimezone(UTC).date().isoformat()


def next_day(moment: datetime) -> datetime:
    """When the day of a moment ends."""
    began = moment.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return began + timedelta(days=1)


def money_text(nanos: int, currency: str) -> str:
    """An amount for people: `1.50 USD`; small amounts with all digits that matter, `0.000075 USD`."""
    amount = f"{nanos / NANOS:.2f}" if abs(nanos) >= NANOS or nanos == 0 else f"{nanos / NANOS:.6f}".rstrip("0")
    return f"{amount if not amount.endswith('.') else amount + '00'} {currency}"
