"""Errors keep their meaning when they are wrapped."""

import pytest

from pallas_contracts.errors import NotFound, PallasError, Unavailable, find_error


def raised_from(outer: Exception, inner: Exception) -> Exception:
    try:
        try:
            raise inner
        except Exception as error:
            raise outer from error
    except Exception as error:  # noqa: BLE001 - it is what is asked for
        return error


def test_the_outermost_pallas_error_of_a_chain_is_found() -> None:
    inner, outer = NotFound("no agent"), Unavailable("not now")
    assert find_error(raised_from(RuntimeError(), inner)) is inner
    assert find_error(raised_from(outer, inner)) is outer


def test_the_context_of_an_error_does_not_count_as_its_cause() -> None:
    def handle_badly() -> None:
        try:
            raise NotFound("no agent")
        except NotFound:
            raise KeyError("x")  # noqa: B904 - the context is what is tested

    with pytest.raises(KeyError) as raised:
        handle_badly()
    assert find_error(raised.value) is None


def test_no_pallas_error_is_found_in_a_circular_chain_without_one() -> None:
    one, two = RuntimeError(), RuntimeError()
    one.__cause__, two.__cause__ = two, one
    assert find_error(one) is None


def test_an_error_has_the_code_of_its_kind_unless_it_is_given_one() -> None:
    assert (NotFound("x").code, NotFound("x", code="agent_gone").code) == ("not_found", "agent_gone")
    assert PallasError("x", team="t").facts == {"team": "t"}
