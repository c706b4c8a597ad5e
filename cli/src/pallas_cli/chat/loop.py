"""The loop of `pallas chat`: read a message, show progress, show the answer.

On a terminal, progress is one status line that is replaced. Otherwise answers go to standard output and progress to
standard error, so that a pipe carries only answers.
"""

import asyncio
import json
import signal
import sys
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console

from pallas_cli.chat.conversation import Conversation, agent_endpoint
from pallas_cli.chat.lines import HELP, Command, parse_line, read_image
from pallas_cli.chat.reading import messages
from pallas_cli.chat.showing import progress, show_answer
from pallas_cli.data_agents.known_agents import naming_agents
from pallas_cli.plain_text import plain
from pallas_cli.refused import Refused
from pallas_mcp_calls.model import CallAnswer, CallFailed


async def hold_chat(url: str, agent: str, message: str | None, *, token: str | None, as_json: bool) -> bool:
    """Send `message`, or else every line of standard input. Return whether the last turn succeeded.

    `token` is the bearer token for the gateway.

    Raises:
        CallFailed: the agent cannot be called.
        Refused: there is no such agent, or a command to the chat fails and nobody sits at a terminal.
    """
    endpoint, tool = agent_endpoint(url, agent)
    async with AsyncExitStack() as stack:
        with naming_agents(url, agent, token):
            conversation = await stack.enter_async_context(Conversation(endpoint, tool, token))
        return await _Chat(url, agent, conversation, as_json).hold(message)


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
            with progress(self.out if self.out.is_terminal else self.err) as show:
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
