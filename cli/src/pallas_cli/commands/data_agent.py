"""`pallas data-agent`: host data agents that are written in Python."""

import logging
import sys
from typing import Annotated

import typer

from pallas_cli.broker import DEFAULT_DATA, Data
from pallas_cli.data_agents.load import load_agents
from pallas_cli.kept_addresses import find_address, help_of
from pallas_cli.kept_secrets import find_token
from pallas_cli.options import Token
from pallas_cli.refused import Refused
from pallas_data_agent import run_agents

app = typer.Typer()


@app.command()
def run(
    agent: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:AGENT",
            help="A `DataAgent`, or a list of them, in a .py file or a dotted module: prices.py:agent.",
        ),
    ],
    url: Annotated[
        str | None, typer.Option(envvar="PALLAS_DATA_POOL_URL", help=help_of("Address of the data-pool.", "data_pool"))
    ] = None,
    token: Token = None,
    data: Data = DEFAULT_DATA,
) -> None:
    """Register data agents with the pool and answer calls. Ctrl-C or SIGTERM ends it.

    Limits of time and memory are enforced. Exit code 2 if the pool refuses the token or a registration.
    """
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("pallas_data_agent").setLevel(logging.INFO)
    pool, bearer, agents = find_address(url, data, "data_pool"), find_token(token), load_agents(agent)
    try:
        run_agents(agents, pool, bearer)
    except ValueError as error:
        raise Refused(str(error)) from error
