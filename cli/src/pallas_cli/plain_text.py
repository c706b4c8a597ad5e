"""Text from the platform, printed so that it cannot control the terminal. Output of `--json` does not come here."""

import os
import re
import sys

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
