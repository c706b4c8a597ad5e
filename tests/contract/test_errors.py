"""Every Pallas error keeps its meaning at every boundary, bare or wrapped.

A boundary that answers with errors adds its map to `BOUNDARIES`: a function from an exception to the answer there.
"""

from collections.abc import Callable, Iterator

import pytest

from pallas_bus import ask
from pallas_contracts.errors import PallasError, find_error
from pallas_runtime.http.problems import problem_of


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


def http_status(error: BaseException) -> int:
    """The status of the answer to a request that ends with `error`."""
    known = find_error(error)
    assert known is not None
    return problem_of(known, retry_after=1).status_code


BOUNDARIES: dict[str, Callable[[BaseException], object]] = {"bus": bus_kind, "HTTP": http_status}
"""From the name of a boundary to its map. The gateway's MCP errors have tests of their own."""

each_kind = pytest.mark.parametrize("kind", list(kinds()), ids=lambda kind: kind.__name__)
each_boundary = pytest.mark.parametrize("answer_of", BOUNDARIES.values(), ids=BOUNDARIES)


@each_kind
@each_boundary
def test_an_error_keeps_its_meaning_when_it_is_wrapped(
    kind: type[PallasError], answer_of: Callable[[BaseException], object]
) -> None:
    bare = kind("no")
    wrapped = RuntimeError("wrapped")
    wrapped.__cause__ = bare
    assert answer_of(wrapped) == answer_of(bare)


@each_boundary
def test_errors_of_different_kinds_get_different_answers(answer_of: Callable[[BaseException], object]) -> None:
    answers = {kind.kind: answer_of(kind("no")) for kind in kinds()}
    assert len(set(map(str, answers.values()))) == len(answers)


@each_kind
def test_the_bus_passes_on_the_kind_of_an_error(kind: type[PallasError]) -> None:
    assert bus_kind(kind("no")).kind == kind.kind
