"""Imports at the start of a process, which leave no garbage to collect."""

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def importing() -> Generator[None]:
    """Look for no garbage during the imports, nor among their objects later: that takes a tenth of the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
