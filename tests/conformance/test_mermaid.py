"""Mermaid reads the flowcharts of programs, and sees what was meant and nothing else."""

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.node import NODE, NodePackages
from tests.unit.cst.cases import cases
from tests.unit.cst.graphs import HOSTILE, graph_of

from pallas_cst.check import check
from pallas_cst.dag import Graph, graph
from pallas_cst.faults import Faulty
from pallas_cst.functions import Functions
from pallas_cst.labels import State, lines_of
from pallas_cst.mermaid import mermaid
from pallas_cst.parse import parse

MERMAID = NodePackages(Path(__file__).parent / "mermaid")
STATES: dict[str, State] = {"1": "done", "2.1": "failed"}


def read(charts: list[str]) -> list[dict[str, Any]]:
    """What Mermaid finds in each chart."""
    MERMAID.install()
    done = subprocess.run(
        [NODE, "parse.mjs"],
        cwd=MERMAID.folder,
        input=json.dumps(charts),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def programs() -> list[Graph]:
    """The graphs of the engine's programs."""
    found = list[Graph]()
    for case in cases("typecheck", "compile", "exampleapp", "stdlib"):
        try:
            found.append(graph(check(parse(case.source), Functions(case.functions))))
        except Faulty:
            continue
    return found


def test_mermaid_sees_each_node_and_edge_and_nothing_else() -> None:
    graphs = [*programs(), graph_of(*HOSTILE), *(graph_of(label, label, label, label) for label in HOSTILE)]
    charts = read([mermaid(each, STATES) for each in graphs])
    assert len(charts) > 150
    for drawn, chart in zip(graphs, charts, strict=True):
        numbers = {node.name: f"n{number}" for number, node in enumerate(drawn.nodes)}
        states: list[State | None] = [
            "done" if node.place == "1" else "failed" if node.place == "2" else None for node in drawn.nodes
        ]
        labelled = zip(drawn.nodes, states, strict=True)
        assert chart == {
            "type": "flowchart-v2",
            "direction": "LR",
            "labels": [{"elements": 0, "lines": lines_of(node, state, 60)} for node, state in labelled],
            "classes": [[state] if state else [] for state in states],
            "links": 0,
            "edges": [
                [numbers[edge.source], numbers[edge.target], "dotted" if edge.conditional else "normal"]
                for edge in drawn.edges
            ],
            "subgraphs": 0,
        }
