"""Every error of ours means something at every boundary, bare or wrapped.

A boundary that answers with errors adds its map to `BOUNDARIES`: a function from an exception to what is said there.
"""

from collections.abc import Callable, Iterator

import pytest

from pallas_bus.transport import ask
from pallas_contracts.errors import PallasError, find_error
from team_lifecycle.entry.errors import status_of


def kinds(of: type[PallasError] = PallasError) -> Iterator[type[PallasError]]:
    """`PallasError` and everything below it."""
    yield of
    for below in of.__subclasses__():
        yield from kinds(below)


def bus_kind(error: BaseException) -> type[PallasError]:
    """What an asker catches when an answerer raises `error`."""
    known = find_error(error)
    assert known is not None
    return ask.kind_of(known.kind)


BOUNDARIES: dict[str, Callable[[BaseException], object]] = {"bus": bus_kind, "team-lifecycle over HTTP": status_of}
"""The maps from an error to what its boundary says. To come: the gateway's MCP errors."""

each_kind = pytest.mark.parametrize("kind", list(kinds()), ids=lambda kind: kind.__name__)
each_boundary = pytest.mark.parametrize("said", BOUNDARIES.values(), ids=BOUNDARIES)


@each_kind
@each_boundary
def test_an_error_keeps_its_meaning_when_it_is_wrapped(
    kind: type[PallasError], said: Callable[[BaseException], object]
) -> None:
    bare = kind("no")
    wrapped = RuntimeError("wrapped")
    wrapped.__cause__ = bare
    assert said(wrapped) == said(bare)


@each_boundary
def test_errors_of_different_kinds_are_told_apart(said: Callable[[BaseException], object]) -> None:
    answers = {kind.kind: said(kind("no")) for kind in kinds()}
    assert len(set(map(str, answers.values()))) == len(answers)


@each_kind
def test_an_error_reaches_the_asker_as_the_kind_it_has(kind: type[PallasError]) -> None:
    assert bus_kind(kind("no")).kind == kind.kind
