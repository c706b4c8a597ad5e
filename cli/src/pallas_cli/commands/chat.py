"""`pallas chat`: talk to one agent from a terminal or a script.

It reads a message, or a command to the chat itself, shows progress on standard error, and the answer.
"""

import asyncio
import base64
import json
import mimetypes
import os
import signal
import sys
import threading
from collections.abc import AsyncGenerator, Coroutine
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from pallas_cli.broker import DEFAULT_DATA, Data
from pallas_cli.calling import progress
from pallas_cli.chat.conversation import Conversation, agent_endpoint
from pallas_cli.command import command
from pallas_cli.completing import complete_agent
from pallas_cli.data_agents import naming_agents
from pallas_cli.kept_addresses import find_address, help_of
from pallas_cli.kept_secrets import find_token
from pallas_cli.options import Token
from pallas_cli.plain_text import plain
from pallas_cli.refused import NotReachable, Refused
from pallas_mcp_calls.model import CallAnswer, CallFailed

app = typer.Typer()

LARGEST_IMAGE = 5 * 1024 * 1024
HELP = """\
/agent NAME   talk to another agent; the conversation so far goes with you
/image FILE   send a PNG, JPEG, GIF or WebP with the next message
/help         this list
/quit         end the chat, as does Ctrl-D
Ctrl-C cancels a running turn. Any other line goes to the agent."""

_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_WORDS = ("agent", "image", "help", "quit")


@dataclass(frozen=True, slots=True)
class Command:
    """A command to the chat: its word, without the slash, and what follows."""

    word: str
    rest: str


def parse_line(line: str) -> Command | str:
    """A command to the chat, or the message as it was typed."""
    word, _, rest = line.strip().partition(" ")
    if word.startswith("/") and word[1:] in _WORDS:
        return Command(word[1:], rest.strip())
    return line.strip()


def read_image(name: str) -> dict[str, str]:
    """An image file as agents take it: its content in base64, and its type.

    Raises:
        Refused: it cannot be read, is too large, or no image that agents take.
    """
    path = Path(name).expanduser()
    kind = mimetypes.guess_type(path.name)[0]
    if kind not in _IMAGES:
        raise Refused(f"{name or 'the image'}: is not the name of a PNG, JPEG, GIF or WebP file")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise Refused(f"{name}: {error.strerror}") from None
    if len(content) > LARGEST_IMAGE:
        raise Refused(f"{name}: is larger than {LARGEST_IMAGE // 1024 // 1024} MiB")
    return {"mime_type": kind, "data": base64.b64encode(content).decode()}


async def messages(message: str | None, *, prompt: bool) -> AsyncGenerator[str]:
    """Yield the one message, or else each line of standard input."""
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


@command(app)
async def chat(
    agent: Annotated[
        str, typer.Argument(metavar="AGENT", help="Agent, as NAME or TEAM/NAME.", autocompletion=complete_agent)
    ],
    url: Annotated[
        str | None,
        typer.Option(
            envvar="PALLAS_GATEWAY_URL",
            help=help_of("Address of the gateway, or of the agent's dedicated port.", "gateway"),
        ),
    ] = None,
    message: Annotated[str | None, typer.Option("--message", "-m", help="Send this one message and exit.")] = None,
    token: Token = None,
    data: Data = DEFAULT_DATA,
    as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON for each turn.")] = False,
) -> None:
    """Talk to an agent. The history is kept on this side and sent with every message.

    Without --message, each line of standard input is a message. /agent NAME goes on with another agent, /image FILE
    sends an image with the next message, and /help lists such commands. On a terminal Ctrl-C cancels the running turn.
    Exit code 1 if the last turn failed.
    """
    bearer, gateway = find_token(token), find_address(url, data, "gateway")
    endpoint, tool = agent_endpoint(gateway, agent)
    try:
        async with AsyncExitStack() as stack:
            with naming_agents(gateway, agent, bearer):
                conversation = await stack.enter_async_context(Conversation(endpoint, tool, bearer))
            ok = await _Chat(gateway, agent, conversation, as_json).hold(message)
    except CallFailed as error:
        kind = NotReachable if error.code == "unreachable" else Refused
        raise kind(str(error), word=error.code) from error
    except asyncio.CancelledError:
        # An ordinary exit would wait for the thread that still reads standard input.
        sys.stdout.flush()
        os._exit(130)
    raise typer.Exit(0 if ok else 1)


@dataclass
class _Chat:
    """A chat with one agent at a time, at the gateway `url`."""

    url: str
    agent: str
    conversation: Conversation
    as_json: bool
    out: Console = field(default_factory=Console)
    err: Console = field(default_factory=lambda: Console(stderr=True))

    @property
    def by_hand(self) -> bool:
        """Whether a person types, who can correct a mistake."""
        return self.out.is_terminal and sys.stdin.isatty() and not self.as_json

    async def hold(self, message: str | None) -> bool:
        """Take lines until the end; returns whether the last turn succeeded."""
        answered = True
        async for line in messages(message, prompt=self.out.is_terminal and not self.as_json):
            # A single message is sent as it is.
            typed = parse_line(line) if message is None else line
            if typed == Command("quit", ""):
                break
            if isinstance(typed, Command):
                await self._obey(typed)
            else:
                answered = await self._turn(typed)
        return answered

    async def _obey(self, command: Command) -> None:
        try:
            self._say(await self._obeyed(command))
        except (Refused, CallFailed) as error:
            if not self.by_hand:
                raise
            self._say(str(error))

    async def _obeyed(self, command: Command) -> str:
        match command.word:
            case "image":
                self.conversation.images.append(read_image(command.rest))
                return f"{command.rest} goes with your next message"
            case "agent":
                await self._switch(command.rest)
                return f"you talk to {self.agent}"
            case _:
                return HELP

    async def _switch(self, agent: str) -> None:
        endpoint, tool = agent_endpoint(self.url, agent)
        if not tool:
            raise Refused("name an agent: /agent NAME, or /agent TEAM/NAME")
        if endpoint == self.url.rstrip("/"):
            raise Refused(f"{self.url} is the address of one agent; pass the gateway's to talk to several")
        with naming_agents(self.url, agent, self.conversation.token):
            await self.conversation.switch(endpoint, tool)
        self.agent = agent

    async def _turn(self, text: str) -> bool:
        if self.as_json:
            return not (await _turn_as_json(self.conversation, self.agent, text)).failed
        try:
            with progress() as show:
                answer = await _or_ctrl_c(self.conversation.ask(text, show), by_hand=self.by_hand)
        except CallFailed as error:
            if not self.by_hand:
                raise
            self._say(str(error))
            return False
        if answer is None:
            self._say("cancelled")
            return False
        show_answer(self.out, answer)
        return not answer.failed

    def _say(self, text: str) -> None:
        """Say something of the chat itself, beside the answers."""
        self.err.print(plain(text), style="dim", markup=False, highlight=False, soft_wrap=True)


async def _or_ctrl_c[R](asking: Coroutine[Any, Any, R], *, by_hand: bool) -> R | None:
    """What is asked for; None: Ctrl-C cancelled it. If nobody types, Ctrl-C ends the program as usual."""
    if not by_hand:
        return await asking
    loop, before = asyncio.get_running_loop(), signal.getsignal(signal.SIGINT)
    turn = asyncio.ensure_future(asking)
    loop.add_signal_handler(signal.SIGINT, turn.cancel)
    try:
        return await turn
    except asyncio.CancelledError:
        if (task := asyncio.current_task()) is not None and task.cancelling():
            raise
        return None
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, before)


async def _turn_as_json(conversation: Conversation, agent: str, text: str) -> CallAnswer:
    lines: list[str] = []
    answer = await conversation.ask(text, lines.append)
    turn = {"agent": agent, "message": text, "answer": answer.text, "failed": answer.failed, "progress": lines}
    print(json.dumps(turn, ensure_ascii=False), flush=True)
    return answer
