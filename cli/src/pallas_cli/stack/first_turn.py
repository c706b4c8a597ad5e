"""Sends one real turn through the public endpoint, to show that the whole system works."""

import asyncio
from functools import partial
from time import monotonic

from rich.console import Console

from pallas_cli.chat.conversation import Conversation, agent_endpoint
from pallas_cli.plain_text import plain_line
from pallas_mcp_calls.model import CallFailed

_DEMO_MESSAGE = """\
Hello Harper, please show what your team can do.
/tool research {"message": "/tool look_up {\\"term\\": \\"turn\\"}"}
/tool engineering {"message": "/tool add {\\"a\\": 19, \\"b\\": 23}"}"""
_LIBRARY_MESSAGE = """
/tool research {"message": "/tool library-search/search {\\"query\\": \\"workspaces team reads\\", \\"limit\\": 1}"}"""
_PLAIN_MESSAGE = "Hello, please introduce yourself in one sentence."


async def send_first_turn(console: Console, gateway: str, agent: tuple[str, str], *, demo: bool, library: bool) -> bool:
    """Send a turn to `agent` (team and name), print it with its progress, and return whether it succeeded.

    The demo team is called by its short address, which an agent has while its name is unique. It searches its library
    if `library` is set.
    """
    message = _DEMO_MESSAGE + _LIBRARY_MESSAGE * library if demo else _PLAIN_MESSAGE
    team, name = agent
    url, tool = agent_endpoint(gateway, name if demo else f"{team}/{name}")
    # The import takes a second or two; in a thread it does not block the loop, which watches the processes.
    await asyncio.to_thread(__import__, "pallas_mcp_calls.calls")
    print_line = partial(console.print, markup=False, highlight=False, soft_wrap=True)
    console.print(f"\nFirst turn, to {url}", style="bold", highlight=False)
    for line in message.splitlines():
        print_line(f"  > {line}", style="dim")
    since = monotonic()
    try:
        async with Conversation(url, tool) as conversation:
            answer = await conversation.ask(
                message,
                lambda line: print_line(f"  {monotonic() - since:6.3f} s  {plain_line(line)}"),
            )
    except CallFailed as error:
        console.print(f"  {plain_line(str(error))}", style="red", markup=False, highlight=False)
        return False
    mark, style = ("failed", "red") if answer.failed else ("answered", "green")
    console.print(f"  {monotonic() - since:6.3f} s  {mark}", style=style, highlight=False)
    for line in answer.text.splitlines():
        print_line(f"  | {plain_line(line)}")
    return not answer.failed
