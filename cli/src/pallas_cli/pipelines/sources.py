"""What a user gives: programs in files, references to stored pipelines, and inputs."""

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pallas_cli.refused import WrongUsage
from pallas_contracts.errors import Rejected
from pallas_jsonrpc.strict_json import loads


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
    return Source(name, _read(file, name))


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
    inputs = {} if file is None else _object(file)
    for value in values:
        name, equals, text = value.partition("=")
        if not equals or not name:
            raise WrongUsage(f"{value!r}: write an input as NAME=VALUE")
        try:
            inputs[name] = loads(text)
        except Rejected:
            inputs[name] = text
    return inputs


def _object(file: str) -> dict[str, Any]:
    try:
        value = loads(_read(file, "the inputs"))
    except Rejected as error:
        raise WrongUsage(f"the inputs are not JSON: {error.message}") from error
    if not isinstance(value, dict):
        raise WrongUsage("the inputs must be a JSON object")
    return value


def _read(file: str, name: str) -> str:
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        return data.decode("utf-8-sig")  # editors on Windows begin a file with a byte order mark
    except OSError as error:
        raise WrongUsage(f"{file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise WrongUsage(f"{name}: is not UTF-8") from error
