"""What the figures were measured on and with: they mean little without it."""

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.embedded import nats_binary

_PACKAGES = ("mcp", "fastmcp", "pydantic-ai-slim", "nats-py", "uvicorn", "uvloop", "starlette", "pydantic")


def facts() -> dict[str, Any]:
    """The machine, the versions and the revision."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "revision": _revision(),
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "versions": {name: version(name) for name in _PACKAGES} | {"nats-server": _nats_version()},
    }


def load_average() -> float:
    """How many processes wanted to run in the last minute."""
    return round(os.getloadavg()[0], 2)


def _cpu_model() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def _revision() -> str:
    try:
        head = _output("git", "rev-parse", "--short", "HEAD")
        return f"{head} with changes" if _output("git", "status", "--porcelain", "-uno") else head
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _nats_version() -> str:
    return _output(str(nats_binary()), "--version").rpartition(" ")[2].removeprefix("v")


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
