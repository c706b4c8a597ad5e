"""A program as an SVG picture."""

import re
from itertools import pairwise
from random import Random
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.requirements import requirement
from tests.unit.cst.cases import STANDARD_FUNCTIONS
from tests.unit.cst.graphs import HOSTILE, graph_of
from tests.waiting import within_cpu

from pallas_cst.check import check
from pallas_cst.dag import Graph, graph
from pallas_cst.functions import Functions
from pallas_cst.layout import laid_out
from pallas_cst.parse import parse
from pallas_cst.svg import svg

SVG = "{http://www.w3.org/2000/svg}"
ELEMENTS = {"svg", "title", "desc", "style", "g", "rect", "text", "path"}
ATTRIBUTES = {"class", "role", "width", "height", "viewBox", "x", "y", "rx", "text-anchor", "d"}
SOURCE = "in l: List<Int>\nin ok: Boolean\nn = if (ok) list-sum(l) with cache: 5s else abs(1)\nout n"


def graph_from(source: str) -> Graph:
    return graph(check(parse(source), Functions(STANDARD_FUNCTIONS)))


def random_graph(calls: int, reach: int) -> Graph:
    """A program of many calls; each takes two of the values of the last `reach` calls, or inputs."""
    chance = Random(7)
    known = ["a", "b"]
    lines = list[str]()
    for number in range(calls):
        lines.append(f"v{number} = max({chance.choice(known[-reach:])}, {chance.choice(known[:2] + known[-reach:])})")
        known.append(f"v{number}")
    return graph_from("\n".join(("in a: Int\nin b: Int", *lines, f"out {known[-1]}")))


@requirement("C-ph-1")
def test_a_program_is_a_picture_with_names_for_screen_readers() -> None:
    root = ET.fromstring(svg(graph_from(SOURCE), "Sum <of> a list", {"1": "failed"}))
    assert (root.get("role"), root[0].tag, root[0].text) == ("img", f"{SVG}title", "Sum <of> a list")
    assert root[1].text == "Inputs: 2, calls: 2, outputs: 1."
    boxes = [(box.get("class"), [each.text for each in box if each.text]) for box in root.iter(f"{SVG}g")]
    assert boxes == [
        ("input", ["input l: List<Int>", "l", "List<Int>"]),
        ("input", ["input ok: Boolean", "ok", "Boolean"]),
        (
            "module failed",
            ["module stdlib.list.list-sum: Int with cache: 5s (failed)", "stdlib.list.list-sum ✗", "cache: 5s"],
        ),
        ("module", ["module stdlib.math.abs: Int", "stdlib.math.abs"]),
        ("output", ["output n: Int", "n", "Int"]),
    ]
    paths = [path for path in root.iter(f"{SVG}path") if path.get("class") != "arrow"]
    assert [path.get("class") for path in paths] == [None, None, "conditional", "conditional"]
    assert "prefers-color-scheme: dark" in (root[2].text or "")


@given(st.lists(st.text(st.characters()) | st.sampled_from(HOSTILE), min_size=2, max_size=5))
def test_no_label_becomes_more_than_text(labels: list[str]) -> None:
    drawn = svg(graph_of(*labels), labels[0])
    root = ET.fromstring(drawn)
    assert {each.tag.removeprefix(SVG) for each in root.iter()} <= ELEMENTS
    assert {name for each in root.iter() for name in each.attrib} <= ATTRIBUTES
    assert len(list(root.iter(f"{SVG}style"))) == 1
    assert re.findall(r"https?:[^\"]*|url\(|@import", drawn.replace(SVG.strip("{}"), "")) == []


@pytest.mark.parametrize(("calls", "reach", "bent"), [(60, 8, True), (300, 300, True), (300, 3, False)])
def test_boxes_do_not_overlap_and_edges_go_to_the_right(calls: int, reach: int, bent: bool) -> None:
    drawn = random_graph(calls, reach)
    found = laid_out(drawn, [30.0] * len(drawn.nodes), gap=10)
    steps = [found.column[b] - found.column[a] for path in found.paths for a, b in pairwise(path)]
    assert min(steps) == 1
    assert (max(steps) == 1) == bent
    for column in set(found.column):
        places = sorted(found.middle[n] for n in range(len(drawn.nodes)) if found.column[n] == column)
        assert all(b - a >= 39.99 for a, b in pairwise(places))


def test_the_picture_holds_everything_in_it() -> None:
    root = ET.fromstring(svg(random_graph(60, 8)))
    width, height = float(root.get("width", "")), float(root.get("height", ""))
    for path in root.iter(f"{SVG}path"):
        if path.get("class") != "arrow":
            numbers = [float(number) for number in re.findall(r"[\d.-]+", re.sub(r"H[\d.]+", "", path.get("d", "")))]
            assert min(numbers) >= 0
            assert max(numbers[0::2]) <= width
            assert max(numbers[1::2]) <= height


def test_a_program_without_nodes_is_a_picture_too() -> None:
    ET.fromstring(svg(Graph([], [])))


@pytest.mark.parametrize("reach", [1, 10, 2000])
def test_2000_nodes_are_drawn_in_well_under_a_second(reach: int) -> None:
    drawn = random_graph(1997, reach)

    def draw() -> None:
        assert svg(drawn).count("<rect") == 2000

    within_cpu(1.0, draw)  # 0.25 s on an idle core
