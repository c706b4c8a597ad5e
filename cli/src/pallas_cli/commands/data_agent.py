"""`pallas data-agent`: host data agents that are written in Python."""

import importlib
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

from pallas_cli.broker import DEFAULT_DATA, Data
from pallas_cli.kept_addresses import find_address, help_of
from pallas_cli.kept_secrets import find_token
from pallas_cli.options import Token
from pallas_cli.refused import Refused, WrongUsage
from pallas_data_agent import DataAgent, run_agents

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


def load_agents(name: str) -> list[DataAgent]:
    """The agents that `MODULE:AGENT` names: a `DataAgent`, or a list of them, in a `.py` file or a dotted module.

    Dotted modules are also searched in the working directory. What the module itself raises is not caught.

    Raises:
        Refused: there are none.
    """
    place, _, attribute = name.rpartition(":")
    if not place:
        raise WrongUsage(f"{name!r}: write it as MODULE:AGENT, such as prices.py:agent")
    found: DataAgent | Sequence[object] | None = getattr(_module(place), attribute, None)
    several = [found] if isinstance(found, DataAgent) else found if isinstance(found, Sequence) else ()
    agents = [each for each in several if isinstance(each, DataAgent)]
    if not agents or len(agents) < len(several):
        raise WrongUsage(f"{place} has no data agent (or list of them) {attribute!r}")
    return agents


def _module(place: str) -> ModuleType:
    """The module. Workers import it by its name, too, so its folder is added to the path."""
    path = Path(place).resolve()
    if place.endswith(".py") and not path.is_file():
        raise WrongUsage(f"there is no file {place}")
    folder, name = (path.parent, path.stem) if place.endswith(".py") else (Path.cwd(), place)
    sys.path.insert(0, str(folder))
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        raise WrongUsage(f"there is no module {name!r}") from error
    if place.endswith(".py") and module.__file__ != str(path):
        raise WrongUsage(f"{place}: there is another module {name!r}; choose another name for the file")
    return module
