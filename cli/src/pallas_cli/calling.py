"""Answers of tools, and the progress of their calls."""

import json
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from pallas_cli.plain_text import is_object, plain_line, print_plain
from pallas_cli.refused import Refused

type Document = dict[str, Any]
type Show = Callable[[str], None]


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
    if not is_object(error) or not isinstance(error.get("message"), str):
        return Refused(text)
    found: object = error.get("details")
    details = found if is_object(found) else {}
    faults: list[Document] = details.get("validations") or []
    more = [f"  {each.get('field')}: {each.get('detail')}" for each in faults]
    status = f" ({details['status']})" if "status" in details else ""
    return Refused(f"{error['message']}{status}", *more, word=error.get("error"), details=details)
