"""What a user gives a command: texts, and JSON by the strict rules of `/rpc`."""

import sys
from pathlib import Path
from typing import Any

from pallas_cli.refused import WrongUsage
from pallas_contracts.errors import Rejected
from pallas_jsonrpc.strict_json import loads


def read_text(file: str, name: str = "") -> str:
    """The text of a file, or with `-` of standard input. An error calls it `name`.

    Raises:
        WrongUsage: it cannot be read as UTF-8.
    """
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        return data.decode("utf-8-sig")  # editors on Windows begin a file with a byte order mark
    except OSError as error:
        raise WrongUsage(f"{file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise WrongUsage(f"{name or ('standard input' if file == '-' else file)} is not UTF-8 text") from error


def json_object(text: str, what: str) -> dict[str, Any]:
    """A JSON object. An error calls it `what`.

    Raises:
        WrongUsage: the text is none.
    """
    try:
        value = loads(text.encode("utf-8", "surrogateescape"))
    except Rejected as error:
        raise WrongUsage(f"{what} not JSON: {error.message}") from error
    if not isinstance(value, dict):
        raise WrongUsage(f"{what.rpartition(' ')[0]} must be a JSON object")
    return value


def read_input(text: str) -> dict[str, Any]:
    """The input of a function: a JSON object, or `-` for the one on standard input."""
    return json_object(read_text("-") if text == "-" else text, "the input is")
