"""Makes commands of a table over a REST API: options, confirmation, the request, and the output.

A secret is printed alone on standard output, so that it can be piped; its explanation goes to standard error. Nothing
else prints secrets.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import Parameter, Signature
from typing import Annotated, Any

import typer

from pallas_cli.broker import DEFAULT_DATA, AsJson, Data
from pallas_cli.kept_addresses import find_address, help_of
from pallas_cli.kept_secrets import find_admin_password
from pallas_cli.options import After, Limit, Page, Yes, confirm, parameter
from pallas_cli.parts import Part
from pallas_cli.plain_text import plain_line, print_answer, print_list, print_plain
from pallas_cli.refused import WrongUsage
from pallas_cli.rest.client import Api, Row, api_at
from pallas_cli.waiting import shown

type Given = dict[str, Any]
"""What the user gave, by parameter, and the `body` of a change. A name that was looked up is an id, of the `row`."""

type Work = Callable[[Api, Given], None]
type Columns = Mapping[str, str | Callable[[Row], str]]
"""By header, the field of a cell, or what makes it of a row."""

type Text = str | Callable[[Given, Row], str]
"""A sentence: with `{names}` of what was given and of the answer, or made of both."""


@dataclass(frozen=True, slots=True)
class Service:
    """A service with a REST API below the path `root`."""

    name: str
    part: Part
    root: str

    @property
    def url(self) -> Any:
        """The type of the option for its address."""
        variable, about = f"PALLAS_{self.part.upper()}_URL", help_of(f"Address of {self.name}.", self.part)
        return Annotated[str | None, typer.Option("--url", envvar=variable, help=about)]

    def run(self, work: Work, given: Given) -> None:
        """Do some work as the account `admin`, at the address `url`, or at that of the stack in `data`.

        Raises:
            Refused: the address or the password is missing, or the work raises it.
        """
        where, password = find_address(given["url"], given["data"], self.part), find_admin_password(given["data"])
        with shown(f"asking {self.name}"), api_at(where, password, service=self.name, root=self.root) as api:
            work(api, given)


@dataclass(frozen=True, slots=True)
class Group:
    """A group of commands. `find` looks up what a parameter names."""

    service: Service
    find: Mapping[str, Callable[[Api, str], Row]] = field(default_factory=dict[str, Callable[[Api, str], Row]])
    app: typer.Typer = field(default_factory=typer.Typer)
    rows: dict[str, Work] = field(default_factory=dict[str, Work])

    def add(
        self, name: str, about: str, work: Work, *params: Parameter, sure: str | Callable[[Given], str] = ""
    ) -> None:
        """Add a command. With `sure`, the user has to confirm that this happens."""
        last = [parameter("url", self.service.url), parameter("data", Data, DEFAULT_DATA), _AS_JSON]
        more = [*([_YES] if sure else []), *(PAGE if isinstance(work, List) else [])]

        def command(**given: Any) -> None:
            if isinstance(work, Change) and work.body is not None:
                given["body"] = work.body(given)
            if what := sure.format_map(given) if isinstance(sure, str) else sure(given):
                confirm(what, yes=given["yes"], as_json=given["as_json"])
            self.service.run(self._found(work), given)

        command.__dict__["__signature__"] = Signature([*params, *more, *last])
        self.app.command(name, help=about)(command)
        self.rows[name] = work

    def _found(self, work: Work) -> Work:
        def act(api: Api, given: Given) -> None:
            for name, find in self.find.items():
                if isinstance(given.get(name), str):
                    given["row"] = find(api, given[name])
                    given[name] = given["row"]["id"]
            work(api, given)

        return act


@dataclass(frozen=True, slots=True)
class List:
    """Prints a list: of an API that gives it in pages, or as a whole in the field `whole`.

    `filters` are the parameters that go into the query, by their names there.
    """

    path: str
    columns: Columns
    nothing: str
    whole: str = ""
    filters: Mapping[str, str] = field(default_factory=dict[str, str])

    def __call__(self, api: Api, given: Given) -> None:
        """Print it."""
        page = Page(given["limit"], given["after"])
        if self.whole:
            rows = page.cut(api.get(self.path)[self.whole], lambda row: row["id"])
        else:
            rows = api.rows(self.path, page=page, **{name: given[it] for name, it in self.filters.items()})
        print_rows(rows, self.columns, nothing=self.nothing, as_json=given["as_json"])


@dataclass(frozen=True, slots=True)
class Show:
    """Prints the item of a list whose `key` has the value of the parameter `what`: its first cell, the others below."""

    path: str
    what: str
    key: str
    columns: Columns

    def __call__(self, api: Api, given: Given) -> None:
        """Print it."""
        row = api.row(self.path, self.key, given[self.what], what=self.what)
        first, *others = ((name, _cell(row, column)) for name, column in self.columns.items())
        print_lines(row, [first[1], *(f"  {name}: {cell}" for name, cell in others)], as_json=given["as_json"])


@dataclass(frozen=True, slots=True)
class Change:
    """Makes a change, such as `PATCH users/{user}`, and says what was done.

    `answer` is added to the answer of the service, or replaces an empty one. `once` is the field of the answer with a
    secret; `known` says of one that exists already what is the case, in place of `say`.
    """

    request: str
    say: Text
    body: Callable[[Given], Row] | None = None
    answer: Mapping[str, Any] = field(default_factory=dict[str, Any])
    once: str = ""
    known: Text = ""

    def __call__(self, api: Api, given: Given) -> None:
        """Make it."""
        method, path = self.request.split(" ")
        segments = [part.format_map(given) for part in path.split("/")]
        answer = (api.make if self.known else api.change)(method, *segments, body=given.get("body"))
        added = {name: it.format_map(given) if isinstance(it, str) else it for name, it in self.answer.items()}
        answer = {**added, **answer}
        text = self.say if answer.get("new", True) else self.known
        sentence = _filled(text, {**answer, **given}) if isinstance(text, str) else text(given, answer)
        secret = answer.get(self.once)
        print_answer(answer, secret or sentence, as_json=given["as_json"])
        if secret and not given["as_json"]:
            print_plain(f"{sentence} It cannot be shown again.", err=True)


def _filled(text: str, values: Row) -> str:
    return text.format_map({name: plain_line(it) if isinstance(it, str) else it for name, it in values.items()})


def print_lines(row: Row, lines: Sequence[str], *, as_json: bool) -> None:
    """Print one item, as lines that nothing in them breaks."""
    print_answer(row, "\n".join(map(plain_line, lines)), as_json=as_json)


def print_rows(rows: Sequence[Row], columns: Columns, *, nothing: str, as_json: bool) -> None:
    """Print a list."""
    cells = ([_cell(row, column) for column in columns.values()] for row in rows)
    print_list(rows, list(columns), cells, nothing=nothing, as_json=as_json)


def _cell(row: Row, column: str | Callable[[Row], str]) -> str:
    if not isinstance(column, str):
        return column(row)
    value: list[str] | str | int | None = row[column]
    return listed(value) if isinstance(value, list) else str(value) if value not in (None, "") else "-"


def date(name: str) -> Callable[[Row], str]:
    """A time as a cell."""
    return lambda row: row[name][:19].replace("T", " ") if row[name] else "-"


def listed(names: Sequence[str]) -> str:
    """Names as a cell."""
    return ", ".join(names) or "-"


def one_or_none(given: Given, name: str, what: str) -> Any:
    """The value of a parameter that is given, or else `--none`, so that an empty list is never an accident.

    Raises:
        WrongUsage: neither or both were passed.
    """
    if bool(given[name]) == given["none"]:
        raise WrongUsage(f"name {what}, or pass --none")
    return given[name]


_AS_JSON = parameter("as_json", AsJson, default=False)
_YES = parameter("yes", Yes, default=False)
PAGE = [parameter("limit", Limit), parameter("after", After)]
