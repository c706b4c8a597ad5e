"""Loads data agents from a module."""

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from pallas_cli.refused import Refused
from pallas_data_agent import DataAgent


def load_agents(name: str) -> list[DataAgent]:
    """The agents that `MODULE:AGENT` names: a `DataAgent`, or a list of them, in a `.py` file or a dotted module.

    Dotted modules are also searched in the working directory. What the module itself raises is not caught.

    Raises:
        Refused: there are none.
    """
    place, _, attribute = name.rpartition(":")
    if not place:
        raise Refused(f"{name!r}: write it as MODULE:AGENT, such as prices.py:agent")
    found: DataAgent | Sequence[object] | None = getattr(_module(place), attribute, None)
    several = [found] if isinstance(found, DataAgent) else found if isinstance(found, Sequence) else ()
    agents = [each for each in several if isinstance(each, DataAgent)]
    if not agents or len(agents) < len(several):
        raise Refused(f"{place} has no data agent (or list of them) {attribute!r}")
    return agents


def _module(place: str) -> ModuleType:
    if not place.endswith(".py"):
        sys.path.insert(0, str(Path.cwd()))
        try:
            return importlib.import_module(place)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{place}.".startswith(f"{error.name}."):
                raise
            raise Refused(f"there is no module {place!r}") from error
    path = Path(place).resolve()
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise Refused(f"there is no file {place}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    sys.path.insert(0, str(path.parent))
    spec.loader.exec_module(module)
    return module
