"""The language server: the program itself over standard input and output, with pygls' own client; and what it finds."""

from pathlib import Path

import pytest
from starlette.responses import Response
from tests.unit.constellation_mcp.constellation import FUNCTIONS, Constellation
from tests.waiting import soon

from constellation_mcp.editor import Completion, Known, Severity, completions, explained, problems
from pallas_cst.functions import Functions

LIVE = Known(Functions(FUNCTIONS), {"data.text.Uppercase": "Capital letters"}, live=True)
GOOD = 'use data.text as t\nin name: String\n# 🎉\nloud = t.Uppercase("🎉${name}")\nout loud\n'


async def test_an_editor_sees_faults_completions_and_explanations(constellation: Constellation, tmp_path: Path) -> None:
    from lsprotocol import types as lsp
    from tests.unit.constellation_mcp.editor import editing

    (tmp_path / "constellation-mcp.json").write_text('{"cache": {"moduleTtlSeconds": 0}}')
    constellation.answers["/signatures"] = Response(status_code=503)
    async with editing(constellation.url, tmp_path) as editor:
        await editor.write(GOOD)
        assert [each.code for each in await editor.diagnosed(lambda found: len(found) == 2)] == ["E004", "E004"]
        constellation.answers.clear()
        assert await editor.diagnosed(lambda found: not found) == []
        await editor.write("in x: Int\ny = x + abs(1)\nout y")
        assert await editor.diagnosed(lambda _: True) == []
        await editor.write("y = x\n" * 1000 + "out y")
        assert len(await editor.diagnosed(lambda _: True)) == 200
        await editor.write(GOOD.replace("${name}", "${nam}"))
        [fault] = await editor.diagnosed(lambda found: len(found) == 1)
        assert (fault.code, fault.severity, fault.source) == ("E001", lsp.DiagnosticSeverity.Error, "constellation")
        assert fault.range == lsp.Range(lsp.Position(3, 24), lsp.Position(3, 27))
        await editor.write(GOOD[:-6])
        [fault] = await editor.diagnosed(lambda found: len(found) == 1)
        assert (fault.code, fault.range.start) == ("E020", lsp.Position(4, 3))

        await editor.write(GOOD)
        document, position = editor.at(3, 12)
        found = await soon(editor.client.text_document_completion_async(lsp.CompletionParams(document, position)))
        assert isinstance(found, lsp.CompletionList)
        assert (found.items[0].label, found.items[0].documentation) == ("t.Uppercase", "Capital letters")
        assert found.items[0].text_edit == lsp.TextEdit(
            lsp.Range(lsp.Position(3, 7), lsp.Position(3, 12)), "t.Uppercase"
        )
        hover = await soon(editor.client.text_document_hover_async(lsp.HoverParams(document, position)))
        assert hover is not None
        assert isinstance(hover.contents, lsp.MarkupContent)
        assert "data.text.Uppercase(text: String) -> String" in hover.contents.value
    assert {headers["x-constellation-agent"] for _, _, _, headers in constellation.requests} == {"zed:alice@acme.com"}


async def test_without_a_service_unknown_modules_are_no_errors(tmp_path: Path) -> None:
    from lsprotocol import types as lsp
    from tests.unit.constellation_mcp.editor import editing

    async with editing("http://127.0.0.1:1", tmp_path) as editor:
        await editor.write("in x: Int\ny = Foo(x)\nz = add(true, 1)\nout y")
        found = await editor.diagnosed(lambda found: len(found) == 2)
    assert [(each.code, each.severity) for each in found] == [
        ("E002", lsp.DiagnosticSeverity.Information),
        ("E010", lsp.DiagnosticSeverity.Error),
    ]
    assert "the modules of the service are not known" in found[0].message


def suggested(source: str) -> dict[str, Completion]:
    at = source.index("|")
    return {each.text: each for each in completions(source.replace("|", ""), at, LIVE)}


@pytest.mark.parametrize(
    ("source", "some", "none"),
    [
        ("in name: String\nx = |", {"name", "trim", "Uppercase", "if", "List"}, {"data.text.Uppercase", "and-then"}),
        ("in name: String\nx = na|", {"name"}, {"trim"}),
        ("use stdlib.math\nx = |", {"add", "stdlib.string.trim", "data.text.Uppercase"}, {"trim"}),
        ("use data.text as t\nx = t.U|", {"t.Uppercase"}, {"Uppercase"}),
        ("x = list-|", {"list-sum", "list-first"}, {"add"}),
        ("use stdlib.m|", {"stdlib.math"}, {"add", "stdlib.string"}),
        ("x = trim(a) with re|", {"retry"}, {"timeout"}),
        ("# in x: Int\nx = add(1, |", {"add"}, {"retry"}),
    ],
)
def test_what_fits_is_suggested(source: str, some: set[str], none: set[str]) -> None:
    found = suggested(source)
    assert some <= found.keys()
    assert none.isdisjoint(found)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("in a: { b: Int }\nc = a|.b\nout c", "a: { b: Int }"),
        ("in a: Int\nc = to-string(a)\nd = c|\nout d", "c: String"),
        ("in a: Int\na = to-string(a)\nout a|", "a: String"),
        ("x = list-s|um([1])\nout x", "stdlib.list.list-sum(list: Seq<Int>) -> Int\n```\n\nThe sum of all items."),
        ("x = data.text.Upp|ercase(1)", "Capital letters"),
        ("x = nothing|", None),
        ("x = | 1", None),
    ],
)
def test_names_are_explained(source: str, text: str | None) -> None:
    found = explained(source.replace("|", ""), source.index("|"), LIVE)
    assert (found is None) if text is None else (found is not None and text in found[0])


def test_warnings_are_shown() -> None:
    [warning] = problems("in a: String\nb = Uppercase(a) with delay: 1s\nout b", LIVE)
    assert (warning.severity, warning.code) == (Severity.WARNING, None)
