"""Limits on the descriptors of this process."""

import os
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


def lowest_unused() -> int:
    """The lowest descriptor that is not in use."""
    descriptor = os.dup(0)
    os.close(descriptor)
    return descriptor
