"""`pallas pipelines`: programs in files, and stored pipelines, at the pipelines service.

What only calls a tool of the agent `pipelines/constellation` has no command here: `pallas call` does it.
"""

import asyncio
import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from pallas_cli.broker import DEFAULT_DATA, AsJson, Data
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
from pallas_cli.plain_text import plain_line, print_plain
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
        _print_json(answer)
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
        _print_json(answer)
    else:
        _print_faults(source, answer)
        if compiled:
            _print_signature(answer, {"stored as": answer.get("storedAs")})
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
    try:
        answer = asyncio.run(api.run(path, {**what, "inputs": given}, tell))
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    completed = answer.get("success") is True and answer.get("status", "completed") == "completed"
    if as_json:
        _print_json(answer)
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
        _print_json(document)
        return
    modules = [*texts(document, "modules"), *(each["name"] for each in parts(document, "modules"))]
    sides = {side: document.get(f"{side}s") or document.get(f"{side}Schema") for side in ("input", "output")}
    name = document.get("name") or document.get("ref") or ", ".join(document.get("aliases") or ()) or "-"
    more = {
        "compiled": document.get("compiledAt"),
        "modules": ", ".join(modules) or None,
        "broken": document.get("broken"),
    }
    named = {"name": name, "inputs": sides["input"], "outputs": sides["output"]}
    _print_signature({**document, **named}, more)
    if source := document.get("source"):
        print_plain(f"\n{source.rstrip()}")


@app.command()
def diff(
    left: Annotated[str, typer.Argument(metavar="FILE|REF", help="The one program: a file, or a reference.")],
    right: Annotated[str, typer.Argument(metavar="FILE|REF", help="The other program.")],
    url: Url = None,
    token: Token = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Compare two programs: inputs, outputs, calls and text. Exit code 1 if they do not do the same."""
    sides = [side if isinstance(side := find_source(given), str) else side.text for given in (left, right)]
    answer = _api(url, token, data).post("/diff", {"left": sides[0], "right": sides[1]})
    if as_json:
        _print_json(answer)
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


def _print_faults(source: Source, answer: Document) -> None:
    """Print the faults and warnings of an answer to standard error, with their lines of the source."""
    placed = parts(answer, "diagnostics") or parts(answer, "errors")
    lines = list(fault_lines(source, placed)) or [
        f"{source.name}: {each}" for name in ("errors", "compilationErrors") for each in texts(answer, name)
    ]
    for line in (*lines, *fault_lines(source, parts(answer, "warnings"), "warning")):
        print_plain(line, err=True)


def _print_signature(document: Document, more: Mapping[str, Any]) -> None:
    """Print the name, the hash, the inputs and the outputs of a pipeline, and those of `more` that are not None."""
    facts = {"name": document.get("name"), "hash": document.get("structuralHash"), **more}
    rows = [(name, str(value)) for name, value in facts.items() if value is not None]
    for side in ("inputs", "outputs"):
        rows += [("" if number else side, each) for number, each in enumerate(typed(document, side))]
    width = max((len(name) for name, _ in rows), default=0)
    for name, value in rows:
        print_plain(f"{name:{width}}  {value}")


def _print_json(document: object) -> None:
    print(json.dumps(document, indent=2, ensure_ascii=False))


def _print_outputs(answer: Document, *, completed: bool) -> None:
    outputs, missing = part(answer, "outputs"), typed(answer, "missingInputs")
    if completed or outputs:
        _print_json(outputs)
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
