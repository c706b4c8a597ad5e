"""Signatures as JSON, and types as text."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.cst.cases import STANDARD_FUNCTIONS, functions_in

from pallas_cst import types as t
from pallas_cst.functions import Function
from pallas_cst.signatures import BadSignature, function_from, read_type, signature_json

ANY_TYPE: st.SearchStrategy[t.Type] = st.recursive(
    st.sampled_from([t.STRING, t.INT, t.FLOAT, t.BOOLEAN, t.JSON, t.NOTHING]),
    lambda inner: st.one_of(
        st.builds(t.ListOf, inner),
        st.builds(t.SeqOf, inner),
        st.builds(t.OptionalOf, inner),
        st.builds(t.MapOf, inner, inner),
        st.builds(t.Record, st.dictionaries(st.text(), inner, max_size=3)),
        st.builds(t.union, st.lists(inner, min_size=1, max_size=3)),
    ),
    max_leaves=8,
)


@given(ANY_TYPE | st.builds(t.Function, st.tuples(ANY_TYPE), ANY_TYPE))
def test_a_type_is_read_as_it_is_written(kind: t.Type) -> None:
    assert read_type(str(kind)) == kind


TOOL = Function(
    "find",
    (("id", t.INT), ("type", t.OptionalOf(t.STRING)), ("limit", t.OptionalOf(t.INT))),
    t.JSON,
    "data.crm.find",
    "data.crm",
    tool=True,
    needed=1,
)


@pytest.mark.parametrize("function", [TOOL, *STANDARD_FUNCTIONS, *functions_in("example-lib-signatures.json")], ids=str)
def test_a_function_is_read_as_it_is_written(function: Function) -> None:
    assert function_from(json.loads(json.dumps(signature_json(function)))) == function


def test_a_tool_says_so_and_which_parameters_may_be_left_out() -> None:
    assert signature_json(TOOL) == {
        "name": "find",
        "namespace": "data.crm",
        "parameters": [
            {"name": "id", "type": "Int"},
            {"name": "type", "type": "Optional<String>", "optional": True},
            {"name": "limit", "type": "Optional<Int>", "optional": True},
        ],
        "returns": "Json",
        "tool": True,
    }


def test_fields_with_any_name_are_written() -> None:
    kind = t.Record({"in": t.INT, "content type": t.STRING, 'a"b': t.JSON})
    assert str(kind) == '{ "in": Int, "content type": String, "a\\"b": Json }'


@pytest.mark.parametrize(
    "text",
    ["", "Intt", "List", "List<>", "Map<Int>", "Int Int", "Int ?", "{ a Int }", "{ <: Int }", "(Int)", "List<" * 200],
)
def test_what_is_no_type_is_refused(text: str) -> None:
    with pytest.raises(BadSignature, match="no type"):
        read_type(text)


@pytest.mark.parametrize(
    "given",
    [{}, {"namespace": 5}, {"parameters": [1]}, {"name": "f", "namespace": None, "parameters": 3, "returns": "Int"}],
)
def test_what_is_no_signature_is_refused(given: dict[str, object]) -> None:
    with pytest.raises(BadSignature, match="no signature"):
        function_from(given)
