"""The graph of a program: its nodes, and what each of them needs."""

import pytest
from tests.unit.cst.cases import STANDARD_FUNCTIONS, cases

from pallas_cst import types as t
from pallas_cst.check import Checked, check
from pallas_cst.dag import graph
from pallas_cst.faults import Faulty
from pallas_cst.functions import Function, Functions
from pallas_cst.parse import parse

FUNCTIONS = Functions(
    [
        *STANDARD_FUNCTIONS,
        *(Function(name, (("x", t.INT),), t.INT, f"demo.{name}", "demo.tools") for name in ("get", "put")),
        Function("GetOrder", (("id", t.STRING),), t.Record({"id": t.STRING}), "GetOrder"),
    ]
)


def checked(source: str) -> Checked:
    return check(parse(source), FUNCTIONS)


def edges_of(source: str) -> list[str]:
    """The edges, as `a > b`, or `a ? b` if the value is not always needed."""
    return [f"{each.source} {'?' if each.conditional else '>'} {each.target}" for each in graph(checked(source)).edges]


def test_the_graph_has_the_form_of_the_rfc() -> None:
    found = graph(checked("in orderId: String\norder = GetOrder(orderId)\nout order"))
    assert found.as_json() == {
        "nodes": ["input:orderId", "module:GetOrder", "output:order"],
        "edges": [["input:orderId", "module:GetOrder"], ["module:GetOrder", "output:order"]],
    }


def test_further_calls_of_a_module_are_numbered_as_they_stand_in_the_program() -> None:
    found = graph(checked("in a: Int\nx = get(put(a))\ny = get(x) with retry: 2, fallback: a + 1\nout y"))
    modules = [node for node in found.nodes if node.kind == "module"]
    assert [(node.name, node.label, node.place, node.options) for node in modules] == [
        ("module:demo.tools.get", "demo.tools.get", "1", ""),
        ("module:demo.tools.put", "demo.tools.put", "2", ""),
        ("module:demo.tools.get#2", "demo.tools.get", "3", "retry: 2, fallback: a + 1"),
    ]
    assert {str(node.type) for node in found.nodes} == {"Int"}


def test_calls_are_numbered_before_those_inside_them() -> None:
    source = "in a: Int\nin l: List<Int>\nx = get(put(a) + get(a)) with fallback: put(1)\n"
    numbers = checked(source + 'y = map(l, (i: Int) => get(i))\n@sink("k")\nout x').numbers
    assert [(number, call.name) for call, number in numbers.items()] == [
        (1, "get"),
        (2, "put"),
        (3, "get"),
        (4, "put"),
        (5, "map"),
        (6, "get"),
    ]


GET, PUT = "module:demo.tools.get", "module:demo.tools.put"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("x = a\ny = { n: x, m: a + b }\nout y", ["input:a > output:y", "input:b > output:y"]),
        (
            "x = if (c) get(a) else b",
            ["input:a > " + GET, "input:b ? output:x", "input:c > output:x", GET + " ? output:x"],
        ),
        ("x = if (c) a else a + 1", ["input:a ? output:x", "input:c > output:x"]),
        ("x = if (a > 1) a else b", ["input:a > output:x", "input:b ? output:x"]),
        (
            "x = branch { c -> 1, get(a) > 1 -> b, otherwise -> 3 }",
            ["input:a > " + GET, "input:b ? output:x", "input:c > output:x", GET + " ? output:x"],
        ),
        ("x = get(a) when c", ["input:a > " + GET, "input:c > output:x", GET + " ? output:x"]),
        ("x = (a when c) ?? b", ["input:a ? output:x", "input:b ? output:x", "input:c > output:x"]),
        ("x = c and b > 1", ["input:b ? output:x", "input:c > output:x"]),
        ("x = get(a) with fallback: b", ["input:a > " + GET, "input:b ? " + GET, GET + " > output:x"]),
        (
            "x = match u { is Int -> get(a), { n } -> get(n) }",
            [
                "input:a > " + GET,
                "input:u > " + GET + "#2",
                "input:u > output:x",
                GET + " ? output:x",
                GET + "#2 ? output:x",
            ],
        ),
        ("x = 1\nget_it = get(a)", ["input:a > " + GET]),
        ('x = "${a} ${get(b)}"', ["input:b > " + GET, "input:a > output:x", GET + " > output:x"]),
    ],
)
def test_what_is_needed_is_an_edge(body: str, expected: list[str]) -> None:
    head = "in a: Int\nin b: Int\nin c: Boolean\nin u: Int | { n: Int }\n"
    assert edges_of(f"{head}{body}\n{'' if 'out ' in body else 'out x'}") == expected


def test_items_of_a_lambda_come_from_the_list_beside_it() -> None:
    map_ = "module:stdlib.collection.map"
    assert edges_of("in l: Seq<Int>\nin k: Int\nx = map(l, (i) => get(i) + k)\nout x") == [
        "input:l > " + map_,
        "input:k > " + map_,
        GET + " > " + map_,
        "input:l > " + GET,
        map_ + " > output:x",
    ]


def test_a_later_value_of_a_variable_has_its_own_edges() -> None:
    source = "in a: Int\nx = get(a)\nx = put(x)\nout x"
    assert edges_of(source) == ["input:a > " + GET, GET + " > " + PUT, PUT + " > output:x"]


def test_every_program_of_the_engine_has_a_graph_without_loops() -> None:
    count = 0
    for case in cases("typecheck", "compile", "exampleapp", "stdlib"):
        try:
            found = graph(check(parse(case.source), Functions(case.functions)))
        except Faulty:
            continue
        count += 1
        names = [node.name for node in found.nodes]
        assert len(set(names)) == len(names)
        reached = set(names)
        while reached:  # what nothing waits for is taken away
            ends = reached - {each.source for each in found.edges if each.target in reached}
            assert ends
            reached -= ends
    assert count > 150


def test_a_graph_that_grows_with_the_square_of_the_program_is_refused() -> None:
    inputs = "".join(f"in i{n}: Int\n" for n in range(1000))
    sums = "s0 = i0\n" + "".join(f"s{n} = s{n - 1} + i{n}\n" for n in range(1, 1000))
    with pytest.raises(Faulty, match="links"):
        graph(checked(f"{inputs}{sums}out s999"))
