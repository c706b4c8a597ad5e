"""The commit of the checkout that `pallas up` runs from."""

import subprocess
from functools import cache
from pathlib import Path

_CHECKOUT = Path(__file__).parents[4]


@cache
def revision() -> str:
    """Its first twelve digits; `unknown` outside a checkout."""
    if not (_CHECKOUT / ".git").exists():
        return "unknown"
    command = ("git", "-C", str(_CHECKOUT), "rev-parse", "--short=12", "HEAD")
    try:
        made = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return made.stdout.strip() or "unknown"
