"""Shows stored pipelines and past executions."""

from pathlib import Path

from pallas_cli.paging import WHOLE, Page, say_more
from pallas_cli.pipelines.api import Document, PipelinesApi, parts, texts, typed
from pallas_cli.pipelines.programs import print_json, print_signature
from pallas_cli.plain_text import plain_line, print_plain, print_table
from pallas_cli.refused import Refused

_HASH = 12


def show_pipelines(api: PipelinesApi, *, page: Page = WHOLE, as_json: bool) -> None:
    """Print the pipelines that the caller may see."""
    answer = api.get("pipelines")
    answer["pipelines"] = page.cut(parts(answer, "pipelines"), _name)
    rows = [
        (_name(each), each.get("structuralHash", "")[:_HASH], _typed(each, "inputs"), _typed(each, "outputs"))
        for each in parts(answer, "pipelines")
    ]
    _print_list(answer, ("pipeline", "hash", "inputs", "outputs"), rows, nothing="no pipelines", as_json=as_json)
    broken = [each for each in parts(answer, "pipelines") if each.get("broken") and not as_json]
    for each in broken:
        print_plain(plain_line(f"broken: {_name(each)}: {each['broken']}"), err=True)


def show_history(api: PipelinesApi, limit: int, after: str | None, *, as_json: bool) -> None:
    """Print the past executions of the caller, the latest first. `after` is the service's name for a row: a cursor."""
    answer = api.get("history", limit=limit, cursor=after)
    rows = [
        (
            each.get("executionId", ""),
            each.get("tool") or "-",
            each.get("status") or "-",
            str(each.get("startedAt") or "-")[:19].replace("T", " "),
            str(each.get("durationMs", "-")),
        )
        for each in parts(answer, "executions")
    ]
    headers = ("execution", "tool", "status", "started", "ms")
    _print_list(answer, headers, rows, nothing="no executions", as_json=as_json)
    if answer.get("cursor"):
        say_more(answer["cursor"])


def show_pipeline(api: PipelinesApi, ref: str, *, mermaid: bool, svg: Path | None, as_json: bool) -> None:
    """Print one pipeline, or its picture."""
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
    named = {"name": _name(document), "inputs": document.get("inputs") or document.get("inputSchema")}
    more = {
        "compiled": document.get("compiledAt"),
        "modules": ", ".join(modules) or None,
        "broken": document.get("broken"),
    }
    print_signature({**document, **named, "outputs": document.get("outputs") or document.get("outputSchema")}, more)
    if source := document.get("source"):
        print_plain(f"\n{source.rstrip()}")


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, "utf-8")
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}") from error
    print_plain(f"the picture is in {path}", err=True)


def _print_list(
    answer: Document, headers: tuple[str, ...], rows: list[tuple[str, ...]], *, nothing: str, as_json: bool
) -> None:
    if as_json:
        print_json(answer)
    elif rows:
        print_table(headers, rows)
    else:
        print_plain(nothing)


def _name(document: Document) -> str:
    """The name of a pipeline, or its aliases; `-` for a program without a name."""
    return document.get("name") or document.get("ref") or ", ".join(document.get("aliases") or ()) or "-"


def _typed(document: Document, side: str) -> str:
    return ", ".join(typed(document, side)) or "-"
