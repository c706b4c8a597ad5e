"""What differs between two programs."""

import json
import time

from tests.requirements import requirement
from tests.unit.cst.cases import STANDARD_FUNCTIONS

from pallas_cst import types as t
from pallas_cst.canonical import structural_hash
from pallas_cst.check import Checked, check
from pallas_cst.compare import Difference, compare
from pallas_cst.functions import Function, Functions
from pallas_cst.parse import parse

TOOLS = [Function(name, (("x", t.INT),), t.INT, f"demo.{name}", "demo") for name in ("get", "put")]
FUNCTIONS = Functions([*STANDARD_FUNCTIONS, *TOOLS])


def checked(source: str) -> Checked:
    return check(parse(source), FUNCTIONS)


def diff(left: str, right: str) -> Difference:
    return compare(checked(left), checked(right))


def calls_of(found: Difference) -> tuple[list[str], list[str], list[tuple[str, str]]]:
    """The texts of the calls that were removed, added and changed."""
    changed = [(each.left.text, each.right.text) for each in found.calls.changed]
    return [each.text for each in found.calls.removed], [each.text for each in found.calls.added], changed


def test_programs_that_differ_in_names_and_layout_are_the_same() -> None:
    found = diff("in a: Int\nx = get(a)\ny = x\nout y", "# text\nin a: Int z = demo.get(a) y = z out y")
    assert found.same
    assert found.left == found.right
    assert calls_of(found) == ([], [], [])
    assert found.text.splitlines()[3:] == [
        " in a: Int",
        "-x = get(a)",
        "-y = x",
        "+z = demo.get(a)",
        "+y = z",
        " out y",
    ]
    assert diff("in a: Int\nout a", "in a: Int\nout a").text == ""


@requirement("C-ph-3")
def test_inputs_and_outputs_are_compared_by_name_and_type() -> None:
    found = diff("in a: Int\nin b: Int\nout a\nout b", "in a: Int\nin b: String\nin c: { d: Int }\nout b\nout c")
    assert not found.same
    assert json.loads(json.dumps(found.as_json()))["inputs"] == {
        "added": {"c": "{ d: Int }"},
        "removed": {},
        "changed": {"b": {"left": "Int", "right": "String"}},
    }
    assert (found.outputs.added, found.outputs.removed) == ({"c": "{ d: Int }"}, {"a": "Int"})


def test_a_call_with_other_options_or_arguments_is_a_changed_call() -> None:
    left = "in a: Int\nx = get(a) with retry: 1, timeout: 5s\ny = put(a + 1)\nout x\nout y"
    right = "in a: Int\nx = get(a) with retry: 3, cache: 1h\ny = put(a + 2)\nout x\nout y"
    first, second = diff(left, right).as_json()["calls"]["changed"]
    assert first == {
        "left": {"module": "demo.get", "place": "1", "text": "get(a)"},
        "right": {"module": "demo.get", "place": "1", "text": "get(a)"},
        "arguments": {},
        "options": {
            "retry": {"left": "1", "right": "3"},
            "timeout": {"left": "5s", "right": None},
            "cache": {"left": None, "right": "1h"},
        },
    }
    assert (second["arguments"], second["options"]) == ({"x": {"left": "a + 1", "right": "a + 2"}}, {})


def test_a_change_does_not_spread_to_the_calls_behind_it() -> None:
    left = "in a: Int\nx = get(a) with retry: 1\ny = put(x)\nz = put(get(y))\nout z"
    right = "in a: Int\nfirst = get(a) with retry: 2\nthen = put(first)\nz = put(get(then))\nout z"
    assert calls_of(diff(left, right)) == ([], [], [("get(a)", "get(a)")])


def test_a_change_on_the_way_to_a_call_is_one_of_its_arguments() -> None:
    left = "in a: Int\nx = a + 1\ny = x * 2\nz = put(y)\nout z"
    found = diff(left, left.replace("a + 1", "a + 9"))
    assert calls_of(found) == ([], [], [("put(y)", "put(y)")])
    assert "+x = a + 9\n" in found.text


def test_calls_of_one_function_are_recognized_wherever_they_stand() -> None:
    left = "in a: Int\nx = get(1)\ny = get(2)\nz = get(3)\nout x\nout y\nout z"
    moved = "in a: Int\nz = get(3)\nnew = get(4)\nx = get(1) with retry: 1\ny = get(22)\nout x\nout y\nout z\nout new"
    assert calls_of(diff(left, moved)) == ([], ["get(4)"], [("get(1)", "get(1)"), ("get(2)", "get(22)")])
    assert calls_of(diff("in a: Int\nx = get(a)\nout x", "in a: Int\nx = put(a)\nout x")) == (
        ["get(a)"],
        ["put(a)"],
        [],
    )


def test_calls_in_lambdas_and_fallbacks_are_compared_too() -> None:
    left = "in l: Seq<Int>\nx = map(l, (i) => get(i) + 1)\nout x"
    assert calls_of(diff(left, left.replace("get(i)", "put(i)")))[:2] == (["get(i)"], ["put(i)"])
    found = diff("in a: Int\nx = get(a) with fallback: 1\nout x", "in a: Int\nx = get(a) with fallback: put(a)\nout x")
    assert calls_of(found) == ([], ["put(a)"], [("get(a)", "get(a)")])
    assert found.calls.changed[0].options.keys() == {"fallback"}


def test_large_programs_are_compared_fast() -> None:
    def large(step: int, lines: int = 1900) -> str:
        return (
            "in v0: Int\n"
            + "".join(f"v{n % 97} = v{n % 89 and 0} + {n * step % 101}\n" for n in range(lines))
            + "out v0"
        )

    began = time.process_time()
    assert not diff(large(3), large(7)).same
    assert "more than" in diff(large(3, 3000), large(7, 3000)).text
    chain = "in v0: Int\n" + "".join(f"v{n} = v{n - 1} + v{n - 1}\n" for n in range(1, 1500)) + "x = get(v1499)\nout x"
    assert calls_of(diff(chain, chain.replace("v0 + v0", "v0 - v0")))[2] == [("get(v1499)", "get(v1499)")]
    assert time.process_time() - began < 5.0  # 0.5 s on an idle core


def test_equal_hashes_are_those_of_the_canonical_form() -> None:
    source = "in a: Int\nx = get(a)\nout x"
    assert diff(source, source).left == structural_hash(checked(source))
