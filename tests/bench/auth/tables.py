"""The results about authorisation as markdown."""

from collections.abc import Iterator
from typing import Any

from tests.bench.auth.changing import PROTECTED, UNPROTECTED
from tests.bench.auth.resolving import COLD, ROUND_TRIP, WARM, WITHOUT_REDIS
from tests.bench.auth.run import CHANGE, RESOLVE, SEARCH, STALE
from tests.bench.tables import table

type Results = dict[str, Any]

_WAYS = {
    ROUND_TRIP: "raw NATS round trip",
    WARM: "auth.resolve, Redis has everything",
    COLD: "auth.resolve, Redis is empty",
    WITHOUT_REDIS: "auth.resolve, without Redis",
}
_CHANGES = {"detach": "detach a team", "attach": "attach a team", "revoke": "revoke a token"}
_PROTECTION = {PROTECTED: "on, everything killed in between", UNPROTECTED: "off, until the first stale answer"}


def sections(results: Results) -> Iterator[str]:
    """The sections of what was measured."""
    if RESOLVE in results:
        yield _resolving(results[RESOLVE])
    if CHANGE in results:
        yield _changing(results[CHANGE])
    if STALE in results:
        yield _staleness(results[STALE])
    if SEARCH in results:
        yield _searching(results[SEARCH])


def faults(results: Results) -> Iterator[str]:
    """Answers that were wrong."""
    for way, cells in results.get(RESOLVE, {}).items():
        for concurrency, cell in cells.items():
            if cell["wrong"]:
                yield f"{_WAYS[way]} at {concurrency}: {cell['wrong']} wrong, for example {cell['faults'][:1]}"
    for way, storm in results.get(STALE, {}).items():
        if storm["answers"]["wrong"] or (way == PROTECTED and storm["answers"]["stale"]):
            yield f"protection {way}, seed {storm['seed']}: {storm['faults'][:1]}"
    for callers, it in results.get(SEARCH, {}).get("mcp", {}).items():
        if it["wrong"]:
            yield f"search by {callers} callers: {it['wrong']} wrong, for example {it['faults'][:1]}"


def _resolving(figures: dict[str, Any]) -> str:
    concurrencies = list(figures[WARM])
    head = ["", *(f"{it}: {what}" for it in concurrencies for what in ("p50 ms", "p99 ms", "a second"))]
    rows = [[_WAYS[way], *(text for cell in cells.values() for text in _cell(cell))] for way, cells in figures.items()]
    note = (
        "Each question at one moment has the JWT of a team of its own, which may read ten libraries. The round trip "
        "has the same question, an answer of the same size, the same client library and an answerer in a process of "
        "its own; its rounds lie between those of the resolver. While Redis is empty or away, the truth is asked."
    )
    cpu = ", ".join(f"{1000 * cell['cpu_ms_total']:.0f} at {it}" for it, cell in figures[WARM].items())
    return (
        f"## Resolving a bearer, by questions at once\n\n{note}\n\n{table(head, rows)}\n\n"
        f"CPU of the resolver for a warm answer, µs: {cpu}."
    )


def _cell(cell: dict[str, Any]) -> tuple[str, str, str]:
    return f"{cell['p50_ms']:.2f}", f"{cell['p99_ms']:.2f}", f"{cell['per_second']:.0f}"


def _changing(figures: dict[str, Any]) -> str:
    rows = [
        [
            _CHANGES[change],
            str(ways[PROTECTED]["times"]),
            *(f"{ways[way][figure]:.1f}" for way in (PROTECTED, UNPROTECTED) for figure in ("p50_ms", "p99_ms")),
        ]
        for change, ways in figures.items()
    ]
    head = ("", "times each", "protected: p50 ms", "p99 ms", "unprotected: p50 ms", "p99 ms")
    note = (
        "Over HTTP until it is confirmed, one after the other, in turn at a replica of each kind. "
        "Postgres does not wait for the disk."
    )
    return f"## Changing what may be read\n\n{note}\n\n{table(head, rows)}"


def _staleness(storms: dict[str, Any]) -> str:
    rows = [
        [
            _PROTECTION[way],
            str(storm["changes"]),
            *(str(storm["answers"][verdict]) for verdict in ("right", "stale", "wrong", "unavailable")),
        ]
        for way, storm in storms.items()
    ]
    head = ("protection", "changes", "right answers", "stale", "wrong", "unavailable")
    note = (
        "Changes and look-ups at once; an answer is stale when it is older than what was confirmed before it was asked."
    )
    return f"## Stale answers\n\n{note}\n\n{table(head, rows)}"


def _searching(figures: dict[str, Any]) -> str:
    asked = [(f"over MCP with a team's bearer, {callers} at once", it) for callers, it in figures["mcp"].items()]
    rows = [
        (name, str(it["searches"]), f"{it['p50_ms']:.1f}", f"{it['p99_ms']:.1f}")
        for name, it in [*asked, ("Postgres alone", figures["postgres"])]
    ]
    note = f"{figures['documents']} documents in {figures['libraries']} libraries, of which the caller may read ten."
    return f"## Searching\n\n{note}\n\n{table(('', 'searches', 'p50 ms', 'p99 ms'), rows)}"
