"""Keeps the logs of a stack's processes small.

A process goes on writing to the file that it was started with, so a large log is copied and then emptied.
"""

import asyncio
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

from pallas_cli.private_files import PRIVATE

LARGEST = 10 * 1024 * 1024
"""Bytes of a log; a burst within `CHECK_SECONDS` may exceed them."""
EARLIER = 2
"""How many earlier parts of a log are kept: `.1` and `.2`."""
CHECK_SECONDS = 2.0


async def keep_small(logs: Sequence[Path]) -> None:
    """Rotate logs that become too large, until this is cancelled."""
    while True:
        await asyncio.sleep(CHECK_SECONDS)
        for log in logs:
            with suppress(OSError):
                await asyncio.to_thread(rotate, log)


def rotate(log: Path) -> None:
    """Empty a log that is too large, and keep its text as an earlier part, if there is room on the disk."""
    if log.stat().st_size <= LARGEST:
        return
    parts = [log.with_name(f"{log.name}.{number}") for number in range(EARLIER, 0, -1)]
    with suppress(OSError):
        for older, newer in pairwise(parts):
            if newer.exists():
                newer.replace(older)
        parts[-1].touch(PRIVATE)
        shutil.copyfile(log, parts[-1])
    os.truncate(log, 0)
