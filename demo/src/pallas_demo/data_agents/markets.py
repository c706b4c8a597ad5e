"""The agents of the interface specification (`data-agent-pool.md`), with invented data: nothing leaves the machine."""

from itertools import pairwise
from math import log
from typing import TypedDict

from pallas_data_agent import DataAgent, ToolError

_CLOSES = {"AAPL": (195.3, 196.1, 194.8, 197.2, 199.0), "BTCUSDT": (67_120.0, 67_480.5, 66_910.0, 68_020.0, 68_400.0)}
_NEWS = {
    "AAPL": ["Apple releases new product", "Analysts bullish on AAPL"],
    "BTCUSDT": ["Bitcoin trades sideways"],
}
_DAY = 86_400_000
_FIRST_DAY = 1_748_390_400_000

news_fetcher = DataAgent("news_fetcher", title="News", timeout=5, idempotent=True)
feature_extractor = DataAgent(
    "feature_extractor", title="Features", timeout=5, idempotent=True, resources=["ohlcv_source"]
)
data_cleaner = DataAgent("data_cleaner", title="Cleaner", timeout=5, idempotent=True)
binance_agent = DataAgent(
    "binance_agent", title="Binance", timeout=5, memory="128MB", idempotent=True, resources=["binance_api"]
)

AGENTS = (news_fetcher, feature_extractor, data_cleaner, binance_agent)


class Articles(TypedDict):
    """Headlines."""

    articles: list[str]


class Features(TypedDict):
    """Numbers that describe a series."""

    features: list[float]


class Values(TypedDict):
    """A series without gaps."""

    values: list[float]


class Candles(TypedDict):
    """Rows of time (ms), open, high, low, close and volume."""

    ohlcv: list[list[float]]


@news_fetcher.tool
def fetch_recent_articles(symbol: str) -> Articles:
    """The recent headlines about a symbol."""
    return {"articles": _known(_NEWS, symbol)}


@feature_extractor.tool
def extract_features(symbol: str, interval: str) -> Features:
    """The returns from one interval to the next: the logarithm of the closes' ratio."""
    closes = [candle[4] for candle in _candles(symbol, interval)]
    return {"features": [round(log(after / before), 6) for before, after in pairwise(closes)]}


@data_cleaner.tool
def fill_gaps(values: list[float | None]) -> Values:
    """Replace each missing value with the one before it. Missing values at the beginning are left out."""
    filled: list[float] = []
    for value in values:
        if value is not None or filled:
            filled.append(filled[-1] if value is None else value)
    return {"values": filled}


@binance_agent.tool
def fetch_ohlcv(symbol: str, interval: str) -> Candles:
    """The candles of a symbol."""
    return {"ohlcv": _candles(symbol, interval)}


def _candles(symbol: str, interval: str) -> list[list[float]]:
    if interval != "1d":
        raise ToolError(f"there are no candles of {interval!r}, only of '1d'")
    closes = _known(_CLOSES, symbol)
    opens = (closes[0], *closes)
    return [
        [float(_FIRST_DAY + day * _DAY), begin, max(begin, end), min(begin, end), end, 1000.0 + day]
        for day, (begin, end) in enumerate(zip(opens, closes, strict=False))
    ]


def _known[T](table: dict[str, T], symbol: str) -> T:
    if symbol not in table:
        raise ToolError(f"{symbol!r} is not known, only {', '.join(table)}")
    return table[symbol]
