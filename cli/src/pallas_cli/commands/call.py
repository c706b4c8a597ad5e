"""`pallas call`: call a tool of an agent over MCP."""

from typing import Annotated

import typer

from pallas_cli.broker import DEFAULT_DATA, AsJson, Data
from pallas_cli.completing import complete_agent, complete_tool
from pallas_cli.kept_addresses import find_address
from pallas_cli.options import GatewayUrl, Token


def call(
    agent: Annotated[
        str, typer.Argument(metavar="AGENT", help="Agent, as NAME or TEAM/NAME.", autocompletion=complete_agent)
    ],
    tool: Annotated[
        str | None,
        typer.Argument(
            metavar="TOOL", help="Its tool; without one, its tools are listed.", autocompletion=complete_tool
        ),
    ] = None,
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ARGUMENT", help="Options of the tool, of which its --help tells, or a JSON object; - reads one."
        ),
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="Idempotency key. A call that is repeated with it joins the first one.")
    ] = None,
    url: GatewayUrl = None,
    token: Token = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Call a tool of an agent, and print its answer. Exit code 1 if the tool refuses.

    `pallas call AGENT TOOL --help` has the options that the tool takes. A text that is `-` is read from standard input.
    Options of the call itself stand before AGENT; --json and --yes may also follow.
    """
    import asyncio

    from pallas_cli.calling import call as call_tool
    from pallas_cli.kept_secrets import find_token

    gateway, bearer = find_address(url, data, "gateway"), find_token(token)
    if tool in ("--json", "--help"):  # behind the agent, whose tools are listed
        as_json, tool = True, None
    try:
        asyncio.run(call_tool(gateway, agent, tool, arguments or (), token=bearer, key=key, as_json=as_json))
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
