"""Runs programs and stored pipelines."""

import asyncio
import sys
from typing import Any

import typer

from pallas_cli.pipelines.api import Document, PipelinesApi, part, typed
from pallas_cli.pipelines.programs import print_faults, print_json
from pallas_cli.pipelines.sources import Source, find_source
from pallas_cli.plain_text import plain_line, print_plain


def run(api: PipelinesApi, given: str, inputs: dict[str, Any], *, as_json: bool) -> None:
    """Run the program in a file, or a stored pipeline. Standard error tells how it goes on."""
    found = find_source(given)
    path, what = ("/run", {"source": found.text}) if isinstance(found, Source) else ("/execute", {"ref": found})

    def tell(event: str) -> None:
        if not as_json:
            print_plain(plain_line(event), err=True)

    tell(f"running {found.name if isinstance(found, Source) else found}")
    answer = asyncio.run(api.run(path, {**what, "inputs": inputs}, tell))
    completed = answer.get("success") is True and answer.get("status", "completed") == "completed"
    if as_json:
        print_json(answer)
    else:
        if isinstance(found, Source):
            print_faults(found, answer)
        _print_result(answer, completed=completed)
    raise typer.Exit(0 if completed else 1)


def _print_result(answer: Document, *, completed: bool) -> None:
    outputs, missing = part(answer, "outputs"), typed(answer, "missingInputs")
    if completed or outputs:
        print_json(outputs)
        sys.stdout.flush()
    if error := answer.get("error"):
        print_plain(f"failed: {error}", err=True)
    if missing:
        print_plain(f"these inputs are missing: {', '.join(missing)}", err=True)
    if "executionId" in answer:
        print_plain(f"{answer.get('status')}{_figures(answer)}, execution {answer['executionId']}", err=True)


def _figures(answer: Document) -> str:
    match answer.get("metrics"):
        case {"executeTimeMs": spent, "modulesExecuted": calls}:
            return f" in {spent} ms, modules executed: {calls}"
        case _:
            return ""
