"""`pallas pipelines`: programs in files, and stored pipelines, at the pipelines service.

What only calls a tool of the agent `pipelines/constellation` has no command here: `pallas call` does it.
"""

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import typer

from pallas_cli.broker import DEFAULT_DATA, AsJson, Data, interruptible
from pallas_cli.kept_addresses import find_address, help_of
from pallas_cli.kept_secrets import find_token
from pallas_cli.options import Token
from pallas_cli.pipelines import (
    Document,
    PipelinesApi,
    Source,
    fault_lines,
    find_source,
    part,
    parts,
    read_inputs,
    read_source,
    texts,
    typed,
)
from pallas_cli.plain_text import plain_line, print_document, print_json, print_plain
from pallas_cli.refused import Refused, WrongUsage

app = typer.Typer()

File = Annotated[str, typer.Argument(metavar="FILE", help="File with a program, or - for standard input.")]
Ref = Annotated[str, typer.Argument(metavar="REF", help="Name of a stored pipeline, or sha256: and its hash.")]
Url = Annotated[
    str | None,
    typer.Option(envvar="PALLAS_PIPELINES_URL", help=help_of("Address of the pipelines service.", "pipelines")),
]


def _api(url: str | None, token: str | None, data: Path) -> PipelinesApi:
    return PipelinesApi(find_address(url, data, "pipelines"), find_token(token))


@app.command()
def validate(
    file: File, url: Url = None, token: Token = None, data: Data = DEFAULT_DATA, as_json: AsJson = False
) -> None:
    """Check a program: syntax, names and types. Exit code 1 if it has faults."""
    source = read_source(file)
    answer = _api(url, token, data).post("/validate", {"source": source.text})
    valid = answer.get("valid") is True
    if as_json:
        print_json(answer)
    else:
        _print_faults(source, answer)
        if valid:
            print_plain(f"{source.name}: valid")
    raise typer.Exit(0 if valid else 1)


@app.command("compile")
def compile_program(
    file: File,
    name: Annotated[str | None, typer.Option(help="Store it under this name.")] = None,
    url: Url = None,
    token: Token = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Compile a program and print its signature. Exit code 1 if it has faults."""
    source = read_source(file)
    answer = _api(url, token, data).post("/compile", {"source": source.text} | ({"name": name} if name else {}))
    compiled = answer.get("success") is True
    if as_json:
        print_json(answer)
    else:
        _print_faults(source, answer)
        if compiled:
            print_document(_signature(answer, {"stored as": answer.get("storedAs")}))
    raise typer.Exit(0 if compiled else 1)


@app.command()
def run(
    program: Annotated[
        str,
        typer.Argument(
            metavar="FILE|REF", help="File with a program, - for standard input, or a reference to a stored pipeline."
        ),
    ],
    values: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            metavar="NAME=VALUE",
            help="Value of an input: JSON, or else a text. A text that is JSON needs its quotes: 'id=\"7\"'.",
        ),
    ] = None,
    inputs: Annotated[
        str | None, typer.Option(metavar="FILE", help="File with all inputs as a JSON object, or -.")
    ] = None,
    url: Url = None,
    token: Token = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Run a program or a stored pipeline and print its outputs. Ctrl-C ends it. Exit code 1 if it does not complete."""
    if program == inputs == "-":
        raise WrongUsage("only one of the program and the inputs can be on standard input")
    api, given, found = _api(url, token, data), read_inputs(inputs, values or ()), find_source(program)
    path, what = ("/run", {"source": found.text}) if isinstance(found, Source) else ("/execute", {"ref": found})

    def tell(event: str) -> None:
        if not as_json:
            print_plain(plain_line(event), err=True)

    tell(f"running {found.name if isinstance(found, Source) else found}")
    with interruptible():
        answer = asyncio.run(api.run(path, {**what, "inputs": given}, tell))
    completed = answer.get("success") is True and answer.get("status", "completed") == "completed"
    if as_json:
        print_json(answer)
    else:
        if isinstance(found, Source):
            _print_faults(found, answer)
        _print_outputs(answer, completed=completed)
    raise typer.Exit(0 if completed else 1)


@app.command()
def show(
    ref: Ref,
    mermaid: Annotated[bool, typer.Option("--mermaid", help="Print its graph as a Mermaid flowchart.")] = False,
    svg: Annotated[Path | None, typer.Option(metavar="FILE", help="Write its graph as an SVG picture.")] = None,
    url: Url = None,
    token: Token = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Show a stored pipeline: signature, hash, and source if yours."""
    api = _api(url, token, data)
    if svg is not None:
        _write(svg, api.text("pipelines", ref, "dag.svg"))
    if mermaid:
        print_plain(api.text("pipelines", ref, "dag.mmd").rstrip())
    if mermaid or svg is not None:
        return
    document = api.get("pipelines", ref)
    if as_json:
        print_json(document)
        return
    modules = [*texts(document, "modules"), *(each["name"] for each in parts(document, "modules"))]
    sides = {f"{side}s": document.get(f"{side}s") or document.get(f"{side}Schema") for side in ("input", "output")}
    name = document.get("name") or document.get("ref") or ", ".join(document.get("aliases") or ()) or "-"
    more = {"compiled": document.get("compiledAt"), "modules": modules or None, "broken": document.get("broken")}
    print_document(_signature({**document, **sides, "name": name}, more))
    if source := document.get("source"):
        print_plain(f"\n{source.rstrip()}")


def _print_faults(source: Source, answer: Document) -> None:
    """Print the faults and warnings of an answer to standard error, with their lines of the source."""
    placed = parts(answer, "diagnostics") or parts(answer, "errors")
    lines = list(fault_lines(source, placed)) or [
        f"{source.name}: {each}" for name in ("errors", "compilationErrors") for each in texts(answer, name)
    ]
    for line in (*lines, *fault_lines(source, parts(answer, "warnings"), "warning")):
        print_plain(line, err=True)


def _signature(document: Document, more: Document) -> Document:
    """The name, the hash, the inputs and the outputs of a pipeline, and those of `more` that are not None."""
    sides = {side: document.get(side) for side in ("inputs", "outputs")}
    facts = {"name": document.get("name"), "hash": document.get("structuralHash"), **more, **sides}
    return {name: value for name, value in facts.items() if value is not None}


def _print_outputs(answer: Document, *, completed: bool) -> None:
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


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, "utf-8")
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}") from error
    print_plain(f"the picture is in {path}", err=True)
