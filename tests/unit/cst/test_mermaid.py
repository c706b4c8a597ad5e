"""A program as a Mermaid flowchart. Mermaid itself reads these charts in `tests/conformance/test_mermaid.py`."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.cst.cases import STANDARD_FUNCTIONS
from tests.unit.cst.graphs import HOSTILE, graph_of

from pallas_cst.check import check
from pallas_cst.dag import graph
from pallas_cst.functions import Functions
from pallas_cst.labels import cut, states_of, width_of
from pallas_cst.mermaid import mermaid
from pallas_cst.parse import parse

FUNCTIONS = Functions(STANDARD_FUNCTIONS)
SOURCE = "in l: List<Int>\nin ok: Boolean\nn = if (ok) list-sum(l) with cache: 5s else abs(1)\nout n"
LABEL = re.compile(r'  n\d+(?:\(\[|\[|\[\[)"(?:[A-Za-z0-9 _.,-]|#\d+;|<br/>)+"(?:\]\)|\]|\]\])')


def test_a_program_is_a_chart_from_left_to_right() -> None:
    assert mermaid(graph(check(parse(SOURCE), FUNCTIONS)), {"1": "failed", "2": "skipped"}) == (
        "flowchart LR\n"
        '  n0(["l<br/>List#60;Int#62;"])\n'
        '  n1(["ok<br/>Boolean"])\n'
        '  n2["stdlib.list.list-sum #10007;<br/>cache#58; 5s"]\n'
        '  n3["stdlib.math.abs #9675;"]\n'
        '  n4[["n<br/>Int"]]\n'
        "  n0 --> n2\n"
        "  n1 --> n4\n"
        "  n2 -.-> n4\n"
        "  n3 -.-> n4\n"
        "  classDef failed fill:#ffebe9,stroke:#cf222e,color:#660018\n"
        "  class n2 failed\n"
        "  classDef skipped fill:#f6f8fa,stroke:#818b98,color:#59636e,stroke-dasharray:4 3\n"
        "  class n3 skipped\n"
    )


@given(st.lists(st.text(st.characters(), min_size=1) | st.sampled_from(HOSTILE), min_size=2, max_size=5))
def test_no_label_leaves_its_quotes(labels: list[str]) -> None:
    first, *lines = mermaid(graph_of(*labels)).splitlines()
    assert first == "flowchart LR"
    assert all(LABEL.fullmatch(line) for line in lines[: len(labels)])
    assert lines[len(labels) : -1] == [f"  n{n} --> n{n + 1}" for n in range(len(labels) - 2)]


def test_a_call_for_many_items_has_the_worst_of_their_states() -> None:
    drawn = graph_of("a", "b", "c", "d")
    assert states_of(drawn, {"1.1": "done", "1.2": "failed", "1.3": "running", "2.1": "done", "2.2": "running"}) == {
        "1:b": "failed",
        "2:c": "running",
    }


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("width", [8, 28])
def test_a_label_is_one_line_of_a_width(text: str, width: int) -> None:
    found = cut(text, width)
    assert width_of(found) <= width
    assert found.isprintable()
    assert found.endswith("…") == (width_of(text) > width)
