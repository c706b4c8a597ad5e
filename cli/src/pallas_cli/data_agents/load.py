"""Loads data agents from a module."""

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from pallas_cli.refused import WrongUsage
from pallas_data_agent import DataAgent


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
