"""The price table: what a million tokens of each model cost. `PALLAS_PRICES` names its file.

A model that is not in the table has no price, so its calls count as unpriced and never as free. Sums are whole numbers
of billionths (see `pallas_contracts.costs`): prices are exact to nine digits behind the point.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field

from pallas_contracts.costs import NANOS, Cost, Currency, model_ref
from pallas_teams.faults import FaultList, TeamFaults
from pallas_teams.parse import parse_file
from pallas_teams.schema import Section, not_bool
from pallas_teams.shape import parse_shape

_MILLION = 1_000_000
_MODEL = re.compile(r"offline|[a-z][a-z-]*\.\S{1,200}")

type _PerMillion = Annotated[float, Field(ge=0, le=1_000_000, allow_inf_nan=False), BeforeValidator(not_bool)]


class _PriceSection(Section):
    """`models.<model>`: units of the currency for a million tokens."""

    input: _PerMillion
    output: _PerMillion
    cached_input: _PerMillion | None = None
    cache_write: _PerMillion | None = None


class _PriceFile(Section):
    """The whole file."""

    currency: Currency
    models: dict[str, _PriceSection] = Field(max_length=10_000)


@dataclass(frozen=True, slots=True)
class Price:
    """Nanos for a million tokens: of input, of input from the provider's cache, of input put there, of output."""

    input: int
    cached_input: int
    cache_write: int
    output: int

    def nanos(self, input_tokens: int, output_tokens: int, cached: int = 0, written: int = 0) -> int:
        """The price of a call. `cached` and `written` are parts of the input."""
        fresh = max(0, input_tokens - cached - written)
        total = fresh * self.input + cached * self.cached_input + written * self.cache_write
        return (total + output_tokens * self.output + _MILLION // 2) // _MILLION


@dataclass(frozen=True, slots=True)
class PriceTable:
    """Prices by model (`openai.gpt-5`), or for all other models of a provider (`generic.*`)."""

    currency: str = "USD"
    prices: Mapping[str, Price] = field(default_factory=dict[str, Price])

    def cost(
        self, provider: str, model: str, input_tokens: int, output_tokens: int, cached: int = 0, written: int = 0
    ) -> Cost | None:
        """What a call costs; None if the model has no price."""
        price = self.prices.get(model_ref(provider, model)) or self.prices.get(f"{provider}.*")
        if price is None:
            return None
        return Cost(nanos=price.nanos(input_tokens, output_tokens, cached, written), currency=self.currency)


NO_PRICES = PriceTable()
"""No model has a price."""


def load_prices(path: Path) -> PriceTable:
    """Read a price table; blocks on the disk.

    Raises:
        TeamFaults: it has faults; each names the line and the field.
    """
    faults = FaultList(hides=False)
    tree = parse_file(path, faults)
    read = tree and parse_shape(_PriceFile, tree, faults)
    if tree is not None:
        for name, entry in tree.branch("models").entries.items():
            if not _MODEL.fullmatch(name):
                faults.add(entry.mark, ("models", name), "is not a model: use PROVIDER.NAME, PROVIDER.* or offline")
    if faults or read is None:
        raise TeamFaults(faults)
    return PriceTable(read.currency, {name: _price(section) for name, section in read.models.items()})


def _price(section: _PriceSection) -> Price:
    cached = section.input if section.cached_input is None else section.cached_input
    written = section.input if section.cache_write is None else section.cache_write
    return Price(*(round(each * NANOS) for each in (section.input, cached, written, section.output)))
