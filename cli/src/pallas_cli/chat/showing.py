"""Shows progress and answers: a status line and Markdown on a terminal, plain lines elsewhere."""

from collections.abc import Callable, Generator
from contextlib import contextmanager

from rich.console import Console
from rich.text import Text

from pallas_cli.plain_text import plain, plain_line
from pallas_mcp_calls.model import CallAnswer

type Show = Callable[[str], None]


@contextmanager
def progress(console: Console) -> Generator[Show]:
    """Yield a function that shows a progress line: replaced in place on a terminal, else one line each."""
    if console.is_terminal:
        with console.status("waiting") as status:
            yield lambda line: status.update(Text(plain_line(line)))
    else:
        yield lambda line: console.print(plain_line(line), markup=False, highlight=False, soft_wrap=True)


def show_answer(console: Console, answer: CallAnswer) -> None:
    """Show the answer, or why the turn failed."""
    text = plain(answer.text)
    if answer.failed:
        console.print(f"failed: {text}", style="red", markup=False, highlight=False, soft_wrap=True)
    elif console.is_terminal:
        from rich.markdown import Markdown

        console.print(Markdown(text))
    else:
        console.print(text, markup=False, highlight=False, soft_wrap=True)
