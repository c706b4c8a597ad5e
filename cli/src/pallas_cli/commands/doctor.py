"""`pallas doctor`: what is wrong with an installation, and what to do about it."""

from pathlib import Path
from typing import Annotated

import typer

from pallas_cli.broker import DEFAULT_DATA, AsJson, Data, NatsUrl
from pallas_cli.kept_addresses import help_of


def doctor(
    teams: Annotated[
        list[Path] | None,
        typer.Option(help="Team folder to check, too. May be repeated. [default: this folder, if it is one]"),
    ] = None,
    port_base: Annotated[
        int | None, typer.Option(help="First port of the stack, as for `pallas up`. [default: that of the data folder]")
    ] = None,
    url: Annotated[
        str | None, typer.Option(envvar="PALLAS_GATEWAY_URL", help=help_of("Address of the gateway.", "gateway"))
    ] = None,
    nats: NatsUrl = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Find out what is wrong with an installation.

    It checks the programs, the data folder, ports, disk, broker, services, workers and team folders: of `pallas up`
    and, with a context or addresses in the environment, of any platform. Exit code 1 if anything is wrong.
    """
    from pallas_cli.doctor.examine import examine

    fine = examine(data, {"gateway": url, "nats": nats}, teams or (), port_base, as_json=as_json)
    raise typer.Exit(0 if fine else 1)
