"""The commit of the checkout that `pallas up` runs from."""

import asyncio
from contextlib import suppress
from pathlib import Path

_CHECKOUT = Path(__file__).parents[4]


async def revision() -> str:
    """Its first twelve digits; `unknown` outside a checkout, and without git."""
    if not (_CHECKOUT / ".git").exists():
        return "unknown"
    with suppress(OSError):
        command = ("git", "-C", str(_CHECKOUT), "rev-parse", "--short=12", "HEAD")
        pipe = asyncio.subprocess.PIPE
        made = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=asyncio.subprocess.DEVNULL)
        told, _ = await made.communicate()
        return told.decode().strip() or "unknown"
    return "unknown"
