"""Calls a tool of an agent, with options that are made of the tool's schema.

Progress goes to standard error, the answer to standard output: a table where it is a list, lines where it is an object.
"""

import json
import re
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeIs

import typer

from pallas_cli.chat.conversation import agent_endpoint
from pallas_cli.data_agents import naming_agents, read_input, read_stdin
from pallas_cli.options import Yes, confirm
from pallas_cli.plain_text import plain_line, print_plain, print_table
from pallas_cli.refused import NotReachable, Refused, WrongUsage, not_there
from pallas_contracts.errors import Rejected
from pallas_jsonrpc.strict_json import loads
from pallas_mcp_calls.model import CallAnswer, CallFailed, Progress, Target

if TYPE_CHECKING:
    from mcp_types import Tool

type Document = dict[str, Any]
type Show = Callable[[str], None]

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_TYPES: Mapping[str, Any] = {"string": str, "integer": int, "number": float, "boolean": bool}
_OWN = {"yes": Yes, "json": Annotated[bool, typer.Option("--json", help="Print JSON.")]}
"""Options that every tool has, unless its schema has one of that name."""


_UNASKED = Annotated[bool, typer.Option("--yes", hidden=True)]
"""The same where nobody is asked: scripts may pass it to any tool."""


async def call(
    gateway: str,
    agent: str,
    tool: str | None,
    words: Sequence[str],
    *,
    token: str | None,
    key: str | None,
    as_json: bool,
) -> None:
    """Call a tool with the arguments that `words` say, and print its answer. None: list the tools of the agent.

    Raises:
        Refused: there is no such agent or tool, it cannot be called, or it refuses.
        WrongUsage: the words do not fit the tool's schema.
    """
    from pallas_mcp_calls.calls import AgentCalls

    target = Target(agent_endpoint(gateway, agent)[0], token)
    try:
        async with AgentCalls() as calls:
            with naming_agents(gateway, agent, token):
                tools = {each.name: each for each in await calls.tools(target)}
            if tool is None:
                _print_tools(list(tools.values()), as_json=as_json)
                return
            if tool not in tools:
                raise not_there("tool", tool, tools, otherwise=f"; `pallas call {agent}` lists those of {agent}")
            given, own = read_arguments(tools[tool], f"pallas call {agent} {tool}", words)
            as_json = as_json or bool(own.get("json"))
            if _asks(tools[tool]):
                confirm(f"{tool} may change or delete what is there", yes=bool(own.get("yes")), as_json=as_json)
            with progress() as show:

                async def told(it: Progress) -> None:
                    if it.message:
                        show(it.message)

                answer = await calls.call(target, tool, given, key=key, on_progress=told)
    except CallFailed as error:
        kind = NotReachable if error.code == "unreachable" else Refused
        raise kind(str(error), word=error.code) from error
    _print_answer(answer, as_json=as_json)


def read_arguments(tool: "Tool", program: str, words: Sequence[str]) -> tuple[Document, Document]:
    """The arguments of a call, and the values of `_OWN`: from options, or behind one JSON object (`-`: standard input).

    Raises:
        WrongUsage: they do not fit the schema.
        Exit: the help was wanted.
    """
    whole = read_input(words[0]) if words and (words[0] == "-" or words[0].startswith("{")) else None
    forms = _forms(tool) if whole is None else {}
    required: object = tool.input_schema.get("required")
    needed: list[Any] = required if _is_array(required) else []
    named = {f"p{number}": name for number, name in enumerate(forms)}
    options = {it: _parameter(it, name, forms[name], required=name in needed) for it, name in named.items()}
    for name, annotation in _OWN.items():
        if name not in forms:
            if name == "yes" and not _asks(tool):
                annotation = _UNASKED
            options[name] = Parameter(name, Parameter.KEYWORD_ONLY, annotation=annotation, default=False)
    found: Document = {}

    def command(**given: Any) -> None:
        found.update(given)

    command.__dict__["__signature__"] = Signature(list(options.values()))
    app = typer.Typer(rich_markup_mode=None, add_completion=False)
    app.command(help=tool.description or "")(command)
    try:
        typer.main.get_command(app).main(list(words if whole is None else words[1:]), program, standalone_mode=False)
    except typer.TyperException as error:
        raise WrongUsage(error.format_message(), f"`{program} --help` shows its options") from error
    if not found:
        raise typer.Exit
    given = {name: _value(name, forms[name], found.pop(it)) for it, name in named.items()}
    return whole or {name: value for name, value in given.items() if value not in (None, [])}, found


def _asks(tool: "Tool") -> bool:
    """Whether a call has to be confirmed."""
    return tool.annotations is not None and bool(tool.annotations.destructive_hint)


def _forms(tool: "Tool") -> dict[str, Document]:
    """The schemas of the properties that can be options; the others can be given as JSON only."""
    properties: object = tool.input_schema.get("properties")
    forms = dict[str, Document]()
    for name, form in properties.items() if _is_object(properties) else ():
        taken = {"help", *(each.replace("_", "-") for each in forms)}
        if _NAME.fullmatch(name) and name.replace("_", "-") not in taken:
            forms[name] = form if _is_object(form) else {}
    return forms


def _parameter(key: str, name: str, form: Document, *, required: bool) -> Parameter:
    """The option of a property. What is no text, number, switch or list of them is given as JSON."""
    words = f"--{name.replace('_', '-')}"
    kind = _kind(form)
    if kind is bool:
        words = f"{words}/--no-{words[2:]}"
    default: Any = Parameter.empty if required else [] if _is_list(form) else None
    about = " ".join(filter(None, (form.get("description"), "JSON." if kind is None else "")))
    annotation: Any = list[kind] if _is_list(form) else (kind or str) if required else (kind or str) | None
    option = typer.Option(words, help=plain_line(about) or None, metavar="JSON" if kind is None else None)
    return Parameter(key, Parameter.KEYWORD_ONLY, annotation=Annotated[annotation, option], default=default)


def _kind(form: Document) -> Any:
    """The type of an option, or of the items of a list; None: it has no such type."""
    if _is_list(form):
        return _kind(form["items"])
    choices: list[Any] = form.get("enum", [])
    if choices and all(isinstance(each, str) for each in choices):
        return Literal[tuple(choices)]
    named: object = form.get("type")
    types: list[Any] = [each for each in (named if _is_array(named) else [named]) if each != "null"]
    return _TYPES.get(types[0]) if len(types) == 1 else None


def _is_list(form: Document) -> bool:
    items: object = form.get("items")
    plain = _is_object(items) and items.get("type") != "array" and _kind(items) is not None
    return form.get("type") == "array" and plain


def _is_object(value: object) -> TypeIs[Document]:
    return isinstance(value, dict)


def _is_array(value: object) -> TypeIs[list[Any]]:
    return isinstance(value, list)


def _value(name: str, form: Document, given: Any) -> Any:
    if given is None or (kind := _kind(form)) not in (None, str):
        return given
    if kind is str:
        return read_stdin() if given == "-" else given
    try:
        return loads(given)
    except Rejected as error:
        raise WrongUsage(f"--{name.replace('_', '-')} is not JSON: {error.message}") from error


@contextmanager
def progress() -> Generator[Show]:
    """Yield a function that shows a line of progress on standard error: replaced on a terminal, else line by line."""
    if not sys.stderr.isatty():
        yield lambda line: print_plain(plain_line(line), err=True)
        return
    from rich.console import Console
    from rich.text import Text

    with Console(stderr=True).status("waiting") as status:
        yield lambda line: status.update(Text(plain_line(line)))


def document_of(text: str) -> Any:
    """The JSON object or list of an answer; None if it is another text."""
    try:
        return json.loads(text) if text.lstrip()[:1] in ("{", "[") else None
    except ValueError:
        return None


def refusal_of(text: str) -> Refused:
    """The error of a failed call: its own message, code and details if it is a document with them."""
    error: object = document_of(text)
    if not _is_object(error) or not isinstance(error.get("message"), str):
        return Refused(text)
    found: object = error.get("details")
    details = found if _is_object(found) else {}
    faults: list[Document] = details.get("validations") or []
    more = [f"  {each.get('field')}: {each.get('detail')}" for each in faults]
    status = f" ({details['status']})" if "status" in details else ""
    return Refused(f"{error['message']}{status}", *more, word=error.get("error"), details=details)


def _print_tools(tools: "Sequence[Tool]", *, as_json: bool) -> None:
    if as_json:
        print(json.dumps([each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in tools], indent=2))
        return
    rows = [(each.name, ", ".join(_forms(each)) or "-", each.description or "-") for each in tools]
    print_table(("tool", "arguments", "what it does"), rows)


def _print_answer(answer: CallAnswer, *, as_json: bool) -> None:
    if answer.failed:
        raise refusal_of(answer.text)
    document = document_of(answer.text)
    if as_json:
        print(json.dumps(answer.text if document is None else document, indent=2, ensure_ascii=False))
    elif document is None:
        print_plain(answer.text)
    else:
        _print_document(document)
    if answer.images:
        print_plain(f"images in the answer, which are not shown: {len(answer.images)}", err=True)


def _print_document(document: object, indent: str = "") -> None:
    """Print objects as lines, and lists of objects as tables of what their items have."""
    for name, value in (document if _is_object(document) else {"": document}).items():
        if _is_array(value) and value and all(map(_is_object, value)):
            columns = [key for key, cell in value[0].items() if not isinstance(cell, dict | list)]
            print_table(columns, ([_text(each.get(key)) for key in columns] for each in value))
        elif _is_object(value) and value:
            print_plain(f"{indent}{plain_line(name)}:")
            _print_document(value, f"{indent}  ")
        else:
            print_plain(f"{indent}{plain_line(name)}: {plain_line(_text(value))}".removeprefix(": "))


def _text(value: Any) -> str:
    if value in (None, "", []):
        return "-"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
