"""`pallas fleet`: how coding agents change. What they are told goes through `pallas call fleet/fleet`."""

import asyncio
from typing import Annotated

import typer

from pallas_cli.broker import DEFAULT_DATA, Data, NatsUrl, access_to
from pallas_cli.fleet import Watch, fleet_at
from pallas_cli.kept_addresses import find_address
from pallas_cli.kept_secrets import find_token
from pallas_cli.options import GatewayUrl, Token

app = typer.Typer()


@app.command()
def watch(
    agent: Annotated[str | None, typer.Argument(metavar="AGENT", help="Only this coding agent.")] = None,
    url: GatewayUrl = None,
    token: Token = None,
    nats: NatsUrl = None,
    data: Data = DEFAULT_DATA,
    as_json: Annotated[bool, typer.Option("--json", help="Print one document a line.")] = False,
) -> None:
    """Print what coding agents write and how they change. Ctrl-C ends it.

    The lines come from the broker, for which an operator's seed is needed. Without it, statuses are printed.
    """
    gateway, bearer = find_address(url, data, "gateway"), find_token(token)

    async def main() -> None:
        async with fleet_at(gateway, bearer) as fleet:
            await Watch(fleet, agent, as_json).run(lambda: access_to(find_address(nats, data, "nats"), data))

    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
