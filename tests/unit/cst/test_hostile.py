"""Programs that are made to do harm are refused with a fault, quickly, and with no other exception."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.cst.cases import STANDARD_FUNCTIONS, cases
from tests.waiting import within_cpu

from pallas_cst.check import check
from pallas_cst.faults import Faulty, Lines
from pallas_cst.functions import Functions
from pallas_cst.parse import parse
from pallas_cst.pretty import pretty

FUNCTIONS = Functions(STANDARD_FUNCTIONS)
HEAD = "in a: Int out a b = "
DEEP = {
    "brackets": "(" * 5000,
    "lists": "[" * 5000,
    "types": "(x: " + "List<" * 5000,
    "ifs": "if (true) 1 else " * 2000,
    "lambdas": "(x) => " * 5000,
    "fallbacks": "max(a, a) with fallback: " * 2000,
    "options in records": "{a: max(a, a) with retry: 1, timeout: " * 1000,
    "matches": "match " * 5000,
    "branches": "branch { a -> " * 3000,
    "texts": '"${' * 5000,
    "lambda or brackets": "(a, " * 5000,
}


def try_it(source: str) -> Faulty | None:
    """The refusal of a program; its faults have places in the source."""
    try:
        check(parse(source), FUNCTIONS)
    except Faulty as error:
        refused = error
    else:
        return None
    lines = Lines(source)
    assert all(lines.position(fault.span.start) >= (1, 1) for fault in refused.faults)
    return refused


@pytest.mark.parametrize("kind", DEEP)
def test_a_deep_program_is_refused(kind: str) -> None:
    refused = try_it(HEAD + DEEP[kind])
    assert refused is not None
    assert refused.faults[0].code == "E020"


def test_half_a_character_is_refused_with_its_place() -> None:
    refused = try_it('x = "\ud800" out x')
    assert refused is not None
    assert [(fault.code, fault.span.start) for fault in refused.faults] == [("E020", 5)]


def test_a_deep_program_is_refused_where_the_stack_is_almost_used_up() -> None:
    def refusal(deeper: int) -> Faulty | None:
        return refusal(deeper - 1) if deeper else try_it(HEAD + "match 1 { _ -> " * 98 + "1" + " }" * 98)

    assert refusal(0) is None
    refused = refusal(600)
    assert refused is not None
    assert "nested too deeply" in refused.faults[0].message


@pytest.mark.parametrize("link", [" + a", " * a", ".b", " ?? a"])
def test_a_long_chain_is_no_deep_program(link: str) -> None:
    parse(HEAD + "a" + link * 10_000)


def test_types_that_grow_exponentially_are_refused() -> None:
    grown = "".join(f"type A{n + 1} = {{ a: A{n}, b: A{n} }}\n" for n in range(1000))
    refused = try_it(f"type A0 = {{ a: Int }}\n{grown} in x: A1000 out x")
    assert refused is not None
    assert "too large" in refused.faults[0].message
    inferred = "".join(f"x{n + 1} = {{ a: x{n}, b: x{n} }}\n" for n in range(1000))
    assert try_it(f"in x0: Int\n{inferred} out x1000") is not None


def test_a_program_of_50_kb_is_checked_in_well_under_a_second() -> None:
    lines = [
        f"v{n} = if (a + {n} > {n} * 2 and not (a == {n})) add(a, {n}) else list-sum([a, {n}])" for n in range(700)
    ]
    source = "in a: Int\n" + "\n".join(lines) + "\nout v699"
    assert len(source) > 45_000
    assert try_it(source) is None
    within_cpu(1.0, lambda: try_it(source))  # 0.15 s on an idle core


WORDS = """in a: Int |out a |type |if |else |match |branch |otherwise |with |retry: |not |and |when |is |lazy |use |as |
true |fallback: |cache: 5s|->|=>|??"""
PIECES = st.sampled_from([*WORDS.split("|"), *'abx019 .,:(){}[]<>=+-*/?"$\\#\n@_|'])


@given(st.lists(PIECES, max_size=60).map("".join) | st.text(max_size=80))
def test_any_text_is_parsed_or_refused(source: str) -> None:
    try_it(source)


SOURCES = [case.source for case in cases("parse", "typecheck", "exampleapp")]


@given(st.sampled_from(SOURCES), st.integers(0, 400), st.integers(0, 6), PIECES)
def test_a_damaged_program_is_accepted_or_refused(source: str, at: int, length: int, piece: str) -> None:
    damaged = source[:at] + piece + source[at + length :]
    try:
        program = parse(damaged)
    except Faulty:
        return
    assert pretty(parse(pretty(program))) == pretty(program)
    try_it(damaged)
