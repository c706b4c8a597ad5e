"""The price table: what calls cost, which models have a price, and the faults of a file."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.requirements import requirement

from pallas_contracts.costs import Cost, money_text
from pallas_teams.faults import TeamFaults
from pallas_teams.prices import NO_PRICES, Price, PriceTable, load_prices

EXAMPLE = Path(__file__).parents[3] / "deploy/k8s/components/prices/prices.yaml"

TABLE = """
currency: EUR
models:
  openai.gpt-5: {input: 1.25, cached_input: 0.125, output: 10}
  generic.*: {input: 0, output: 0}
"""


def table(tmp_path: Path, text: str = TABLE) -> PriceTable:
    path = tmp_path / "prices.yaml"
    path.write_text(text)
    return load_prices(path)


def faults(tmp_path: Path, text: str) -> list[str]:
    with pytest.raises(TeamFaults) as caught:
        table(tmp_path, text)
    return [str(fault).removeprefix(f"{tmp_path}/") for fault in caught.value.faults]


@requirement("K-cost-1")
def test_a_call_costs_its_input_its_cached_input_and_its_output(tmp_path: Path) -> None:
    cost = table(tmp_path).cost("openai", "gpt-5", 1200, 80, cached=1000)
    assert cost == Cost(nanos=200 * 1250 + 1000 * 125 + 80 * 10_000, currency="EUR")
    assert str(cost) == "0.001175 EUR"


def test_a_model_that_is_not_in_the_table_has_no_price_and_one_of_a_free_provider_costs_nothing(tmp_path: Path) -> None:
    prices = table(tmp_path)
    assert prices.cost("openai", "gpt-6", 1200, 80) is None
    assert prices.cost("generic", "llama", 1200, 80) == Cost(nanos=0, currency="EUR")
    assert NO_PRICES.cost("offline", "offline", 1, 1) is None


@given(st.integers(0, 10**7), st.integers(0, 10**7), st.integers(0, 10**7), st.integers(0, 10**9))
def test_cached_input_never_costs_more_than_fresh_input_when_its_price_is_lower(
    tokens: int, output: int, cached: int, price: int
) -> None:
    one = Price(price, price // 2, price, price)
    whole, partly = one.nanos(tokens, output), one.nanos(tokens, output, min(tokens, cached))
    assert 0 <= partly <= whole
    assert isinstance(partly, int)


def test_the_faults_of_a_table_name_line_and_field(tmp_path: Path) -> None:
    text = "currency: euro\nmodels:\n  openai.gpt-5: {input: cheap}\n  gpt 5: {input: 1, output: true}\n"
    assert faults(tmp_path, text) == [
        "prices.yaml:1:11: currency: must match pattern '^[A-Z]{3}$'",
        "prices.yaml:3:17: models.openai.gpt-5.output: is needed",
        "prices.yaml:3:25: models.openai.gpt-5.input: must be a number",
        "prices.yaml:4:3: models.gpt 5: is not a model: use PROVIDER.NAME, PROVIDER.* or offline",
        "prices.yaml:4:29: models.gpt 5.output: must be a number, not true or false",
    ]


def test_a_file_that_is_not_there_is_a_fault(tmp_path: Path) -> None:
    with pytest.raises(TeamFaults, match="cannot be read: No such file"):
        load_prices(tmp_path / "none.yaml")


def test_the_example_loads() -> None:
    assert load_prices(EXAMPLE).prices


@pytest.mark.parametrize(
    ("nanos", "text"), [(0, "0.00"), (1_500_000_000, "1.50"), (75_000, "0.000075"), (500_000_000, "0.5"), (12, "0.00")]
)
def test_an_amount_is_short_and_shows_its_digits(nanos: int, text: str) -> None:
    assert money_text(nanos, "USD") == f"{text} USD"
