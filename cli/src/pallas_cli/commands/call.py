"""`pallas call`: call a tool of an agent over MCP, with options that are made of the tool's schema.

Progress goes to standard error, the answer to standard output: a table where it is a list, lines where it is an object.
"""

import re
from collections.abc import Mapping, Sequence
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from pallas_cli.broker import DEFAULT_DATA, AsJson, Data
from pallas_cli.calling import Document, document_of, progress, refusal_of
from pallas_cli.chat.conversation import agent_endpoint
from pallas_cli.command import command
from pallas_cli.completing import complete_agent, complete_tool
from pallas_cli.data_agents import naming_agents
from pallas_cli.given import read_input, read_text
from pallas_cli.kept_addresses import find_address
from pallas_cli.kept_secrets import find_token
from pallas_cli.options import GatewayUrl, Token, Yes, confirm
from pallas_cli.plain_text import is_array, is_object, plain_line, print_document, print_json, print_list, print_plain
from pallas_cli.refused import NotReachable, Refused, WrongUsage, not_there
from pallas_contracts.errors import Rejected
from pallas_jsonrpc.strict_json import loads
from pallas_mcp_calls.model import CallAnswer, CallFailed, Progress, Target

if TYPE_CHECKING:
    from mcp_types import Tool

app = typer.Typer()

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_TYPES: Mapping[str, Any] = {"string": str, "integer": int, "number": float, "boolean": bool}
_OWN = {"yes": Yes, "json": Annotated[bool, typer.Option("--json", help="Print JSON.")]}
"""Options that every tool has, unless its schema has one of that name."""

_UNASKED = Annotated[bool, typer.Option("--yes", hidden=True)]
"""The same where nobody is asked: scripts may pass it to any tool."""


@command(app, context_settings={"allow_interspersed_args": False})
async def call(
    agent: Annotated[
        str, typer.Argument(metavar="AGENT", help="Agent, as NAME or TEAM/NAME.", autocompletion=complete_agent)
    ],
    tool: Annotated[
        str | None,
        typer.Argument(
            metavar="TOOL", help="Its tool; without one, its tools are listed.", autocompletion=complete_tool
        ),
    ] = None,
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ARGUMENT", help="Options of the tool, of which its --help tells, or a JSON object; - reads one."
        ),
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="Idempotency key. A call that is repeated with it joins the first one.")
    ] = None,
    url: GatewayUrl = None,
    token: Token = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Call a tool of an agent, and print its answer. Exit code 1 if the tool refuses.

    `pallas call AGENT TOOL --help` has the options that the tool takes. A text that is `-` is read from standard input,
    @FILE from a file. Options of the call itself stand before AGENT; --json and --yes may also follow.
    """
    from pallas_mcp_calls.calls import AgentCalls

    gateway, bearer = find_address(url, data, "gateway"), find_token(token)
    if tool in ("--json", "--help"):  # behind the agent, whose tools are listed
        as_json, tool = True, None
    target = Target(agent_endpoint(gateway, agent)[0], bearer)
    try:
        async with AgentCalls() as calls:
            with naming_agents(gateway, agent, bearer):
                tools = {each.name: each for each in await calls.tools(target)}
            if tool is None:
                _print_tools(list(tools.values()), as_json=as_json)
                return
            if tool not in tools:
                raise not_there("tool", tool, tools, otherwise=f"; `pallas call {agent}` lists those of {agent}")
            given, own = read_arguments(tools[tool], f"pallas call {agent} {tool}", arguments or ())
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
    needed: list[Any] = required if is_array(required) else []
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
    for name, form in properties.items() if is_object(properties) else ():
        taken = {"help", *(each.replace("_", "-") for each in forms)}
        if _NAME.fullmatch(name) and name.replace("_", "-") not in taken:
            forms[name] = form if is_object(form) else {}
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
    types: list[Any] = [each for each in (named if is_array(named) else [named]) if each != "null"]
    return _TYPES.get(types[0]) if len(types) == 1 else None


def _is_list(form: Document) -> bool:
    items: object = form.get("items")
    plain = is_object(items) and items.get("type") != "array" and _kind(items) is not None
    return form.get("type") == "array" and plain


def _value(name: str, form: Document, given: Any) -> Any:
    if isinstance(given, str) and (given == "-" or given.startswith("@")):
        given = read_text(given.removeprefix("@"))
    if given is None or (kind := _kind(form)) not in (None, str):
        return given
    if kind is str:
        return given
    try:
        return loads(given)
    except Rejected as error:
        raise WrongUsage(f"--{name.replace('_', '-')} is not JSON: {error.message}") from error


def _print_tools(tools: "Sequence[Tool]", *, as_json: bool) -> None:
    documents = [each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in tools]
    rows = [(each.name, ", ".join(_forms(each)) or "-", each.description or "-") for each in tools]
    print_list(documents, ("tool", "arguments", "what it does"), rows, as_json=as_json)


def _print_answer(answer: CallAnswer, *, as_json: bool) -> None:
    if answer.failed:
        raise refusal_of(answer.text)
    document = document_of(answer.text)
    if as_json:
        print_json(answer.text if document is None else document)
    elif document is None:
        print_plain(answer.text)
    else:
        print_document(document)
    if answer.images:
        print_plain(f"images in the answer, which are not shown: {len(answer.images)}", err=True)
