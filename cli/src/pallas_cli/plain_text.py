"""Text and tables, printed so that what comes from the platform cannot control the terminal.

Output of `--json` does not come here.
"""

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeIs

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""Control characters except tab and newline, other line separators, and marks that reverse the direction of text."""


def plain(text: str) -> str:
    """The text with its control characters escaped, such as `\\x1b`. Newlines and tabs are kept."""
    return _CONTROLS.sub(_escaped, text.replace("\r\n", "\n"))


def plain_line(text: str) -> str:
    """The text as one line, with newlines and tabs escaped, too."""
    return plain(text).replace("\n", "\\n").replace("\t", "\\t")


def print_plain(text: str, *, err: bool = False) -> None:
    """Print a text and a newline at once, to standard output or standard error.

    What goes to standard error is progress and reasons. When nobody reads it any more, the work goes on without.
    """
    try:
        print(plain(text), file=sys.stderr if err else sys.stdout, flush=True)
    except BrokenPipeError:
        if not err:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")


_WIDE = 2000
_LONGEST, _LONGEST_LAST = 80, 240
"""The most characters of a cell, and of a cell of the last column, which often has a sentence."""


def print_table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows under headers. In a pipe each row is one line. Long cells end in an ellipsis, except the first."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    for number, header in enumerate(headers):
        table.add_column(header, no_wrap=number == 0)
    for row in rows:
        table.add_row(*_cells(row))
    # Names are printed literally, not as rich's markup.
    Console(width=None if sys.stdout.isatty() else _WIDE, markup=False, emoji=False).print(table)


def _cells(row: Sequence[str]) -> Iterator[str]:
    for number, cell in enumerate(map(plain_line, row), 1):
        longest = len(cell) if number == 1 else _LONGEST_LAST if number == len(row) else _LONGEST
        yield cell if len(cell) <= longest else f"{cell[: longest - 1]}…"


def print_json(document: object) -> None:
    """Print one JSON document. Escapes keep it from controlling the terminal."""
    print(json.dumps(document, indent=2))


def print_answer(answer: object, sentence: str, *, as_json: bool) -> None:
    """Print an answer as JSON, or what a person reads of it."""
    if as_json:
        print_json(answer)
    else:
        print_plain(sentence)


def print_list(
    answer: object, headers: Sequence[str], rows: Iterable[Sequence[str]], *, nothing: str = "", as_json: bool
) -> None:
    """Print a list as JSON, or as a table; without items, `nothing`."""
    if as_json:
        print_json(answer)
    elif not answer:
        print_plain(nothing)
    else:
        print_table(headers, rows)


def print_document(document: object, indent: str = "") -> None:
    """Print objects as lines, and lists of objects as tables of what their items have."""
    for name, value in (document if is_object(document) else {"": document}).items():
        if is_array(value) and value and all(map(is_object, value)):
            columns = [key for key, cell in value[0].items() if not isinstance(cell, dict | list)]
            print_table(columns, ([_value(each.get(key)) for key in columns] for each in value))
        elif is_object(value) and value:
            print_plain(f"{indent}{plain_line(name)}:")
            print_document(value, f"{indent}  ")
        else:
            print_plain(f"{indent}{plain_line(name)}: {plain_line(_value(value))}".removeprefix(": "))


def _value(value: Any) -> str:
    if value in (None, "", []):
        return "-"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def is_object(value: object) -> TypeIs[dict[str, Any]]:
    """Whether it is a JSON object."""
    return isinstance(value, dict)


def is_array(value: object) -> TypeIs[list[Any]]:
    """Whether it is a JSON array."""
    return isinstance(value, list)
