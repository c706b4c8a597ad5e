"""Finds the `FunctionAgent` of an agent's module: a file of the team folder, or an importable name."""

import asyncio
import importlib
import importlib.util
import sys
import threading
from concurrent.futures import Future
from pathlib import Path
from types import ModuleType

from pallas_contracts.errors import Rejected
from pallas_executor.functions.agent import FunctionAgent


async def load_function_agent(team: str, agent: str, module: Path | str | None) -> FunctionAgent:
    """Import the module and return its `agent`.

    The import runs in a daemon thread: a slow import delays no heartbeats and no turns, and one that never ends does
    not keep the process from ending.

    A file is imported under a unique module name, so that teams may have files of the same name, and again each time,
    so that a changed folder brings changed code. An `__init__.py` is the package of the files beside it.

    Raises:
        Rejected: there is no module, or it has no `agent`.
        Exception: whatever the module raises when it is imported.
    """
    loaded: Future[FunctionAgent] = Future()
    loaded.set_running_or_notify_cancel()

    def load() -> None:
        try:
            loaded.set_result(_load(team, agent, module))
        except BaseException as error:  # noqa: BLE001 - raised again by `wrap_future`
            wanted_end = Rejected(f"its module could not be loaded: {type(error).__name__}")
            loaded.set_exception(error if isinstance(error, Exception) else wanted_end)

    threading.Thread(target=load, name=f"import {team}.{agent}", daemon=True).start()
    return await asyncio.wrap_future(loaded)


def _load(team: str, agent: str, module: Path | str | None) -> FunctionAgent:
    if module is None:
        raise Rejected(f"agent {agent!r} has no module")
    loaded = _load_file(f"pallas_team_{team}_{agent}", module) if isinstance(module, Path) else _load_name(module)
    found = getattr(loaded, "agent", None)
    if not isinstance(found, FunctionAgent):
        raise Rejected(f"the module of agent {agent!r} has no FunctionAgent called 'agent'")
    return found


def _load_name(name: str) -> ModuleType:
    return importlib.import_module(name)


def _load_file(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise Rejected(f"{path.name!r} is no Python file")
    for submodule in [known for known in sys.modules if known.startswith(f"{name}.")]:
        del sys.modules[submodule]
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
