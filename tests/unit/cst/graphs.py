"""Graphs with labels that are made to do harm."""

from itertools import pairwise

from pallas_cst import types as t
from pallas_cst.dag import Edge, Graph, Kind, Node
from pallas_cst.faults import Span

HOSTILE = [
    '"]; click n0 href "javascript:alert(1)"',
    "end",
    "%%{init: {'securityLevel': 'loose'}}%%",
    "--- subgraph x ---",
    "a\nclick n0 call alert()",
    "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "]]></svg><style>*{display:none}</style>",
    "&lt;b&gt; &quot; &#34; #quot; #34; #60;script#62;",
    "`**bold**` $$x^2$$ [link](javascript:alert(1))",
    "style n0 fill:#f00; classDef x fill:#60;",
    "ﬂ°°60¶ßscript",
    "\u202eabc\u2028\u0000\x1b[31m\ud800\ufffe",
    "é 漢字 😀",
    "\\\" \\n ' {} () [] | < > ~~~ === :::done @{ shape: x }",
    "x" * 500,
    "漢" * 500,
]


def graph_of(*labels: str) -> Graph:
    """A chain of an input, calls and an output with these labels, which are also options and parts of a type."""
    between: list[Kind] = ["module"] * (len(labels) - 2)
    kinds: list[Kind] = ["input", *between, "output"]
    nodes = [
        Node(f"{number}:{label}", kind, label, t.Record({label: t.INT}), Span(0, 0), label, str(number))
        for number, (kind, label) in enumerate(zip(kinds, labels, strict=True))
    ]
    links = pairwise(nodes)
    return Graph(nodes, [Edge(a.name, b.name, conditional=b.kind == "output") for a, b in links])
