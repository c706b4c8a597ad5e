"""The start of every service, which `python -m SERVICE` is: it imports the service, reads its settings, and runs it."""

import gc
import os
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import NoReturn


def start(module: str) -> NoReturn:
    """Run `SERVICE` of `MODULE.app` until a signal, and exit. An argument `--a-setting` is `PALLAS_A_SETTING=true`."""
    with quick_imports():
        app = import_module(f"{module}.app")
        from pallas_runtime.run import run
    run(app.SERVICE, environment(sys.argv[1:]))


def environment(arguments: Sequence[str]) -> dict[str, str]:
    """The variables of this process, and those that arguments such as `--hold` stand for."""
    from pallas_runtime.settings import variable

    return os.environ | {variable(word.strip("-").replace("-", "_")): "true" for word in arguments}


@contextmanager
def quick_imports() -> Generator[None]:
    """Keep the garbage collector off during the imports, and away from their objects later.

    It would take a tenth of the start.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
