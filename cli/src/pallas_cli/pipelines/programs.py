"""Checks, compiles and compares programs."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import typer

from pallas_cli.pipelines.api import Document, PipelinesApi, part, parts, texts, typed
from pallas_cli.pipelines.faults import fault_lines
from pallas_cli.pipelines.sources import Source, find_source, read_source
from pallas_cli.plain_text import print_plain


def validate(api: PipelinesApi, file: str, *, as_json: bool) -> None:
    """Print the faults and warnings of a program."""
    source = read_source(file)
    answer = api.post("/validate", {"source": source.text})
    valid = answer.get("valid") is True
    if as_json:
        print_json(answer)
    else:
        print_faults(source, answer)
        if valid:
            print_plain(f"{source.name}: valid")
    raise typer.Exit(0 if valid else 1)


def compile_(api: PipelinesApi, file: str, name: str | None, *, as_json: bool) -> None:
    """Compile a program, and store it if it has a name."""
    source = read_source(file)
    answer = api.post("/compile", {"source": source.text} | ({"name": name} if name else {}))
    compiled = answer.get("success") is True
    if as_json:
        print_json(answer)
    else:
        print_faults(source, answer)
        if compiled:
            print_signature(answer, {"stored as": answer.get("storedAs")})
    raise typer.Exit(0 if compiled else 1)


def diff(api: PipelinesApi, left: str, right: str, *, as_json: bool) -> None:
    """Print what differs between two programs, in files or stored."""
    sides = [side if isinstance(side := find_source(given), str) else side.text for given in (left, right)]
    answer = api.post("/diff", {"left": sides[0], "right": sides[1]})
    if as_json:
        print_json(answer)
    else:
        for line in _difference(answer):
            print_plain(line)
    raise typer.Exit(0 if answer.get("same") is True else 1)


def _difference(answer: Document) -> Iterable[str]:
    if answer.get("same") is True:
        yield "the programs do the same"
    for kind in ("input", "output"):
        changes = part(answer, f"{kind}s")
        yield from (f"+ {kind} {name}: {of}" for name, of in changes.get("added", {}).items())
        yield from (f"- {kind} {name}: {of}" for name, of in changes.get("removed", {}).items())
        yield from (f"~ {kind} {name}: {_change(each)}" for name, each in changes.get("changed", {}).items())
    calls = part(answer, "calls")
    yield from (f"+ call {call['text']}" for call in calls.get("added", ()))
    yield from (f"- call {call['text']}" for call in calls.get("removed", ()))
    for call in calls.get("changed", ()):
        yield f"~ call {call['right']['text']}"
        for kind in ("arguments", "options"):
            yield from (f"    {name}: {_change(each)}" for name, each in call[kind].items())
    if text := answer.get("text"):
        yield f"\n{text.rstrip()}"


def _change(each: Mapping[str, str | None]) -> str:
    return f"{each['left'] or 'not given'} → {each['right'] or 'not given'}"


def print_faults(source: Source, answer: Document) -> None:
    """Print the faults and warnings of an answer to standard error, with their lines of the source."""
    placed = parts(answer, "diagnostics") or parts(answer, "errors")
    lines = list(fault_lines(source, placed)) or [
        f"{source.name}: {each}" for name in ("errors", "compilationErrors") for each in texts(answer, name)
    ]
    for line in (*lines, *fault_lines(source, parts(answer, "warnings"), "warning")):
        print_plain(line, err=True)


def print_signature(document: Document, more: Mapping[str, Any]) -> None:
    """Print the name, the hash, the inputs and the outputs of a pipeline, and those of `more` that are not None."""
    facts = {"name": document.get("name"), "hash": document.get("structuralHash"), **more}
    rows = [(name, str(value)) for name, value in facts.items() if value is not None]
    for side in ("inputs", "outputs"):
        rows += [("" if number else side, each) for number, each in enumerate(typed(document, side))]
    width = max((len(name) for name, _ in rows), default=0)
    for name, value in rows:
        print_plain(f"{name:{width}}  {value}")


def print_json(document: object) -> None:
    """Print JSON."""
    print(json.dumps(document, indent=2, ensure_ascii=False))
