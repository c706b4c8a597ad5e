"""`pallas chat`: talk to one agent from a terminal or a script."""

from typing import Annotated

import typer

from pallas_cli.broker import DEFAULT_DATA, Data
from pallas_cli.completing import complete_agent
from pallas_cli.kept_addresses import find_address, help_of
from pallas_cli.options import Token


def chat(
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
    import asyncio
    import os
    import sys

    from pallas_cli.chat.loop import hold_chat
    from pallas_cli.kept_secrets import find_token
    from pallas_cli.refused import NotReachable, Refused
    from pallas_mcp_calls.model import CallFailed

    bearer, gateway = find_token(token), find_address(url, data, "gateway")
    try:
        ok = asyncio.run(hold_chat(gateway, agent, message, token=bearer, as_json=as_json))
    except CallFailed as error:
        kind = NotReachable if error.code == "unreachable" else Refused
        raise kind(str(error), word=error.code) from error
    except KeyboardInterrupt:
        # An ordinary exit would wait for the thread that still reads standard input.
        sys.stdout.flush()
        os._exit(130)
    raise typer.Exit(0 if ok else 1)
