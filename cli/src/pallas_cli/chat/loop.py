"""The loop of `pallas chat`: read a message, show progress, show the answer.

On a terminal, progress is one status line that is replaced. Otherwise answers go to standard output and progress to
standard error, so that a pipe carries only answers.
"""

import asyncio
import json
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import contextmanager, suppress

from rich.console import Console
from rich.text import Text

from pallas_cli.chat.conversation import Conversation, agent_endpoint
from pallas_cli.plain_text import plain, plain_line
from pallas_mcp_calls.model import CallAnswer

type Show = Callable[[str], None]


async def hold_chat(url: str, agent: str, message: str | None, *, token: str | None, as_json: bool) -> bool:
    """Send `message`, or else every line of standard input. Return whether the last turn succeeded.

    `token` is the bearer token for the gateway.

    Raises:
        CallFailed: the agent cannot be called.
    """
    endpoint, tool = agent_endpoint(url, agent)
    out, err = Console(), Console(stderr=True)
    answered = True
    async with Conversation(endpoint, tool, token) as conversation:
        async for text in _messages(message, prompt=out.is_terminal and not as_json):
            if as_json:
                answer = await _turn_as_json(conversation, agent, text)
            else:
                with _progress(out if out.is_terminal else err) as show:
                    answer = await conversation.ask(text, show)
                _show_answer(out, answer)
            answered = not answer.failed
    return answered


async def _turn_as_json(conversation: Conversation, agent: str, text: str) -> CallAnswer:
    progress: list[str] = []
    answer = await conversation.ask(text, progress.append)
    turn = {"agent": agent, "message": text, "answer": answer.text, "failed": answer.failed, "progress": progress}
    print(json.dumps(turn, ensure_ascii=False), flush=True)
    return answer


async def _messages(message: str | None, *, prompt: bool) -> AsyncGenerator[str]:
    if message is not None:
        yield message
        return
    while (line := await _next_line("> " if prompt else "")) is not None:
        if line.strip():
            yield line.strip()


async def _next_line(prompt: str) -> str | None:
    """Read a line in a daemon thread, so that a blocked prompt does not delay Ctrl-C."""
    loop = asyncio.get_running_loop()
    line: asyncio.Future[str | None] = loop.create_future()

    def deliver(read: str | None) -> None:
        if not line.done():
            line.set_result(read)

    def read() -> None:
        found = _read_line(prompt)
        with suppress(RuntimeError):  # the loop was closed in the meantime
            loop.call_soon_threadsafe(deliver, found)

    threading.Thread(target=read, daemon=True).start()
    return await line


def _read_line(prompt: str) -> str | None:
    """Return the next line, or None at the end of input. On a terminal, `input` supports line editing."""
    if prompt and sys.stdin.isatty():
        try:
            return input(prompt)
        except EOFError:
            return None
    return sys.stdin.readline() or None


@contextmanager
def _progress(console: Console) -> Generator[Show]:
    """Yield a function that shows a progress line: replaced in place on a terminal, else one line each."""
    if console.is_terminal:
        with console.status("waiting") as status:
            yield lambda line: status.update(Text(plain_line(line)))
    else:
        yield lambda line: console.print(plain_line(line), markup=False, highlight=False, soft_wrap=True)


def _show_answer(console: Console, answer: CallAnswer) -> None:
    text = plain(answer.text)
    if answer.failed:
        console.print(f"failed: {text}", style="red", markup=False, highlight=False, soft_wrap=True)
    elif console.is_terminal:
        from rich.markdown import Markdown

        console.print(Markdown(text))
    else:
        console.print(text, markup=False, highlight=False, soft_wrap=True)
