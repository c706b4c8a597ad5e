"""Options that commands share: who asks, and at which gateway. Those for the broker are in `broker.py`."""

from typing import Annotated

import typer

from pallas_cli.kept_addresses import help_of

Token = Annotated[
    str | None,
    typer.Option(
        "--token",
        metavar="BEARER",
        help="Bearer token. The process list shows it to other users: prefer PALLAS_TOKEN, PALLAS_TOKEN_FILE with the "
        "path of a file, or a context.",
    ),
]
GatewayUrl = Annotated[
    str | None, typer.Option("--url", envvar="PALLAS_GATEWAY_URL", help=help_of("Address of the gateway.", "gateway"))
]
