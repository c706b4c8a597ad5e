"""`pallas rpc`: call a function of an agent by JSON-RPC."""

import json
from typing import Annotated
from uuid import uuid4

import typer

from pallas_cli.broker import DEFAULT_DATA, Data
from pallas_cli.command import command
from pallas_cli.completing import complete_agent
from pallas_cli.data_agents import execute
from pallas_cli.given import read_input
from pallas_cli.kept_addresses import find_address
from pallas_cli.kept_secrets import find_token
from pallas_cli.options import GatewayUrl, Token
from pallas_cli.refused import Refused, did_you_mean
from pallas_cli.waiting import shown

app = typer.Typer()


@command(app)
def rpc(
    agent: Annotated[
        str,
        typer.Argument(
            metavar="AGENT",
            help="Agent, as NAME or TEAM/NAME. Data agents are of the team `data`.",
            autocompletion=complete_agent,
        ),
    ],
    function: Annotated[
        str, typer.Argument(metavar="FUNCTION", help="Function of a data agent, or tool of any other agent.")
    ],
    arguments: Annotated[
        str, typer.Argument(metavar="JSON", help="Input: a JSON object, or - to read it from standard input.")
    ] = "{}",
    task: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Task of the call, as for `pallas turns list --task`. [default: a new one]"),
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(min=0.001, help="Seconds after which the call ends, if its agent allows more.")
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="Idempotency key. A call that is repeated with it joins the first one.")
    ] = None,
    url: GatewayUrl = None,
    token: Token = None,
    data: Data = DEFAULT_DATA,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the whole response on one line: result and meta.")
    ] = False,
) -> None:
    """Call a function of an agent by JSON-RPC and print its result. Exit code 1 on an error."""
    wanted = {"task_id": task or f"cli-{uuid4().hex[:12]}", "timeout": timeout, "idempotency_key": key}
    meta = {name: value for name, value in wanted.items() if value is not None}
    gateway, bearer = find_address(url, data, "gateway"), find_token(token)
    given = read_input(arguments)
    with shown(f"calling {agent}"):
        response = execute(gateway, agent, function, given, meta, bearer)
    if error := response.get("error"):
        facts = error.get("data", {})
        asked = function if facts.get("reason") == "unknown function" else agent
        hint = did_you_mean(asked, facts.get("known", ()))
        raise Refused(f"{error['message']} ({error['code']}){hint}", word=facts.get("code"), details=response)
    shape = None if as_json else 2
    print(json.dumps(response if as_json else response["result"], indent=shape, ensure_ascii=False))
