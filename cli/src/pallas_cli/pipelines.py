"""A client of the HTTP API of pipelines, and what a user gives it: programs in files, references, and inputs.

Its errors become readable lines, and faults of a program come with their lines of the source.
"""

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import httpx

from pallas_cli.given import json_object, read_text
from pallas_cli.plain_text import plain
from pallas_cli.refused import NotReachable, Refused, WrongUsage, not_reached
from pallas_cli.waiting import shown
from pallas_contracts.errors import Rejected
from pallas_jsonrpc.strict_json import loads

type Document = dict[str, Any]

EXECUTION_HEADER = "X-Constellation-Execution-ID"
"""The header of an answer that names the execution, before the answer itself is there."""
_SECONDS = 30.0
_LAST_SECONDS = 1.0
"""How long the last events are waited for after the answer."""
_BAD_REQUEST = 400


@dataclass(frozen=True, slots=True)
class PipelinesApi:
    """The API at `url`. `token` is a bearer token."""

    url: str
    token: str | None = field(default=None, repr=False)

    def get(self, *path: str) -> Document:
        """The document at a path, which is given as segments."""
        return self._document(self._ask("GET", _path(path)))

    def text(self, *path: str) -> str:
        """The text at a path."""
        return self._ask("GET", _path(path)).text

    def post(self, path: str, body: Document) -> Document:
        """The answer of a request; of a program that has faults, too."""
        return self._document(self._ask("POST", path, json=body))

    async def run(self, path: str, body: Document, on_event: Callable[[str], None]) -> Document:
        """The same for a request that takes as long as an execution. `on_event` is given what happens meanwhile."""
        try:
            async with self._client(httpx.Timeout(_SECONDS, read=None)) as http, asyncio.TaskGroup() as tasks:
                async with http.stream("POST", path, json=body) as answer:
                    execution = answer.headers.get(EXECUTION_HEADER)
                    following = tasks.create_task(_follow(http, execution, on_event)) if execution else None
                    await answer.aread()
                if following:
                    await asyncio.wait([following], timeout=_LAST_SECONDS)
                    following.cancel()
        except* (httpx.HTTPError, httpx.InvalidURL) as errors:
            raise self._not_reached(errors.exceptions[0]) from None
        return self._document(self._accepted(answer))

    def _client(self, timeout: httpx.Timeout) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=self.url, headers=self._headers(), timeout=timeout, verify=self._verify)

    def _headers(self) -> dict[str, str]:
        own = {"X-Constellation-Request-ID": f"cli-{uuid4().hex[:12]}"}
        return {**own, "Authorization": f"Bearer {self.token}"} if self.token else own

    @property
    def _verify(self) -> bool:
        """Loading the certificates takes longer than most requests, and plain HTTP needs none."""
        return not self.url.startswith("http://")

    def _ask(self, method: str, path: str, **request: Any) -> httpx.Response:
        url = f"{self.url.rstrip('/')}{path}"
        try:
            with shown("asking the pipelines service"):
                answer = httpx.request(
                    method, url, headers=self._headers(), timeout=_SECONDS, verify=self._verify, **request
                )
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise self._not_reached(error) from error
        return self._accepted(answer)

    def _accepted(self, answer: httpx.Response) -> httpx.Response:
        """The answer, if it is none that says `error` and `message`."""
        if answer.is_success:
            return answer
        match _json(answer):
            case {"message": str(message)}:
                raise Refused(message)
            case dict() if answer.status_code == _BAD_REQUEST:
                return answer
            case _:
                raise self._not_ours(answer)

    def _document(self, answer: httpx.Response) -> Document:
        match _json(answer):
            case {**document}:
                return {**document}
            case _:
                raise self._not_ours(answer)

    def _not_ours(self, answer: httpx.Response) -> Refused:
        said = f"{self.url} answers with HTTP status {answer.status_code}"
        return Refused(f"{said}, but not as the pipelines service")

    def _not_reached(self, error: Exception) -> NotReachable:
        return not_reached(f"the pipelines service at {self.url}", error)


def part(document: Document, name: str) -> Document:
    """An object in a document; empty if it is missing or null."""
    found: Document = document.get(name) or {}
    return found


def parts(document: Document, name: str) -> list[Document]:
    """The objects of a list in a document; none if it is missing or null. Texts in it are left out."""
    found: list[Any] = document.get(name) or []
    return [each for each in found if isinstance(each, dict)]


def texts(document: Document, name: str) -> list[str]:
    """The texts of a list in a document."""
    found: list[Any] = document.get(name) or []
    return [each for each in found if isinstance(each, str)]


def typed(document: Document, name: str) -> list[str]:
    """The inputs or outputs in a document, such as `order: Int`."""
    return [f"{name}: {kind}" for name, kind in part(document, name).items()]


def _path(segments: tuple[str, ...]) -> str:
    return "/" + "/".join(quote(segment, safe="") for segment in segments)


def _json(answer: httpx.Response) -> Any:
    try:
        return answer.json()
    except ValueError:
        return None


async def _follow(http: httpx.AsyncClient, execution: str, on_event: Callable[[str], None]) -> None:
    """Tell the server-sent events of an execution, if the server has them."""
    with suppress(httpx.HTTPError):
        async with http.stream("GET", _path(("executions", execution, "events"))) as events:
            if not events.is_success:
                return
            async for line in events.aiter_lines():
                if line.startswith("data:"):
                    on_event(_message(line.removeprefix("data:").strip()))


def _message(data: str) -> str:
    """What an event says: its `message`, else all of it."""
    with suppress(ValueError):
        match json.loads(data):
            case {"message": str(message)}:
                return message
            case _:
                pass
    return data


@dataclass(frozen=True, slots=True)
class Source:
    """A program, and the name of its file."""

    name: str
    text: str


def read_source(file: str) -> Source:
    """The program in a file, or with `-` on standard input.

    Raises:
        Refused: it cannot be read as UTF-8.
    """
    name = "standard input" if file == "-" else file
    return Source(name, read_text(file))


def find_source(given: str) -> Source | str:
    """The program in a file, or a reference to a stored pipeline: what is no file, and does not end with `.cst`."""
    path = Path(given)
    is_file = given == "-" or given.endswith(".cst") or path.is_file() or path.is_fifo()  # `<(…)` of a shell is a pipe
    return read_source(given) if is_file else given


def read_inputs(file: str | None, values: Iterable[str]) -> dict[str, Any]:
    """The inputs of a run: those in a file (`-`: standard input), then each `NAME=VALUE`, as JSON or else as text.

    Raises:
        Refused: they are no JSON object, or a value has no name.
    """
    inputs = {} if file is None else json_object(read_text(file, "the inputs:"), "the inputs are")
    for value in values:
        name, equals, text = value.partition("=")
        if not equals or not name:
            raise WrongUsage(f"{value!r}: write an input as NAME=VALUE")
        try:
            inputs[name] = loads(text)
        except Rejected:
            inputs[name] = text
    return inputs


_WIDTH = 110
_BEFORE = 60
"""Of a long line, so many characters are shown, and so many of them before the fault."""


def fault_lines(source: Source, faults: Iterable[dict[str, Any]], kind: str = "") -> Iterator[str]:
    """Lines that tell faults or warnings (`line`, `column`, `code`, `message`), with a caret under their places.

    `kind` stands before each message.
    """
    lines = source.text.split("\n")
    for fault in faults:
        line, column = int(fault.get("line", 1)), int(fault.get("column", 1))
        words = (f"{kind}:" if kind else "", fault.get("code", ""), fault.get("message", ""))
        yield f"{source.name}:{line}:{column}: {' '.join(filter(None, words))}"
        if 1 <= line <= len(lines):
            yield from _marked(lines[line - 1].removesuffix("\r"), max(column - 1, 0))


def _marked(line: str, at: int) -> Iterator[str]:
    """The line, or the part of a long one around the place, and a caret under the place."""
    start = max(0, at - _BEFORE) if len(line) > _WIDTH else 0
    before = plain(line[start:at])
    yield f"  {before}{plain(line[at : start + _WIDTH])}"
    yield f"  {''.join('\t' if char == '\t' else ' ' for char in before)}^"
