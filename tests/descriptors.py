"""Limits on the descriptors of this process."""

import resource
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def open_files(most: int) -> Generator[None]:
    """Let this process have `most` descriptors."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def no_new_files() -> Generator[None]:
    """Let this process open nothing; what is open stays so. Of the descriptors below the limit, none is ever closed."""
    with open_files(3):
        yield
