"""Programs that tests need and no package registry has: `tool("kubectl")` is the path of one, fetched if missing.

They come from Debian's packages, pinned in `debian-tools.txt`, and are unpacked into this environment without root and
without apt. A program of the same name elsewhere on PATH may be of another version and is never used.
`python -m tests.debian_tools` fetches all of them.
"""

import hashlib
import io
import os
import platform
import re
import sys
import tarfile
import tempfile
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PINS = Path(__file__).with_name("debian-tools.txt")
FOLDER = Path(sys.prefix) / "debian"

_MIRROR = "PALLAS_DEBIAN_MIRROR"
_FALLBACKS = (
    "http://deb.debian.org/debian",
    "https://snapshot.debian.org/archive/debian/20251001T000000Z",
    "https://snapshot.debian.org/archive/debian/20261120T000000Z",
)
"""The others keep what the first removes when a package has a successor."""

_SOURCE = re.compile(r"^(?:deb\s+(?:\[.*?\]\s+)?|URIs:\s*)(https?://\S+/debian)/?(?:\s|$)", re.MULTILINE)
_TIMEOUT = 60
_AR_MAGIC = b"!<arch>\n"
_AR_HEADER = 60


class NotFetched(Exception):
    """The program could not be fetched. The message names the mirrors that were tried."""


@dataclass(frozen=True)
class Pin:
    """One package of Debian, and the program in it."""

    program: str
    sha256: str
    path: str


def tool(program: str) -> Path:
    """Return the program's path, after fetching it where it is missing.

    Raises:
        NotFetched: there is no package for this machine, or no mirror has any of those that are pinned.
    """
    places = {pin: FOLDER / f"{program}-{pin.sha256[:12]}" for pin in pins(program, platform.machine())}
    if there := next((place for place in places.values() if place.exists()), None):
        return there
    faults: list[str] = []
    for pin, place in places.items():
        try:
            _put(place, unpacked(fetched(pin, mirrors()), program))
        except NotFetched as error:
            faults.append(str(error))
        else:
            return place
    raise NotFetched("; ".join(faults))


def pins(program: str, machine: str) -> list[Pin]:
    """The packages that are pinned for a machine, the wanted one first.

    Raises:
        NotFetched: there is none.
    """
    lines = (line.split() for line in PINS.read_text("utf-8").splitlines() if not line.startswith("#"))
    found = [Pin(name, sha256, path) for name, architecture, sha256, path in lines if architecture == machine]
    if not (wanted := [pin for pin in found if pin.program == program]):
        raise NotFetched(f"{program} for {machine} is not among the pins in {PINS.name}")
    return wanted


def mirrors() -> list[str]:
    """The mirrors: of PALLAS_DEBIAN_MIRROR, of apt, and deb.debian.org."""
    told = os.environ.get(_MIRROR)
    return list(dict.fromkeys([*([told.rstrip("/")] if told else []), *_apt_mirrors(), *_FALLBACKS]))


def _apt_mirrors() -> Iterator[str]:
    folder = Path("/etc/apt")
    for path in (folder / "sources.list", *sorted(folder.glob("sources.list.d/*"))):
        if path.is_file():
            yield from _SOURCE.findall(path.read_text("utf-8", errors="replace"))


def fetched(pin: Pin, places: list[str]) -> bytes:
    """Return the package from the first of `places` that has the one that is meant.

    Raises:
        NotFetched: none has.
    """
    faults: list[str] = []
    for mirror in places:
        try:
            with urllib.request.urlopen(f"{mirror}/{pin.path}", timeout=_TIMEOUT) as answer:
                package: bytes = answer.read()
        except OSError as error:
            faults.append(f"{mirror}: {error}")
            continue
        if hashlib.sha256(package).hexdigest() == pin.sha256:
            return package
        faults.append(f"{mirror}: another SHA-256 than the pinned one")
    raise NotFetched(f"cannot fetch {pin.path} ({'; '.join(faults)}); {_MIRROR} can name another mirror")


def unpacked(package: bytes, program: str) -> bytes:
    """Return the program or library out of a Debian package: an `ar` archive whose member `data.tar.*` has the files.

    Raises:
        NotFetched: it is no such archive, or has no such program.
    """
    with tarfile.open(fileobj=io.BytesIO(_data_member(package))) as files:
        names = files.getnames()
        places = ("usr/bin", "bin", f"usr/lib/{platform.machine()}-linux-gnu")
        wanted = next((place for each in places if (place := f"./{each}/{program}") in names), None)
        found = files.extractfile(wanted) if wanted is not None else None
        if found is None:
            raise NotFetched(f"the package of {program} has no such program")
        return found.read()


def _data_member(package: bytes) -> bytes:
    place = len(_AR_MAGIC)
    while header := package[place : place + _AR_HEADER]:
        start, size = place + _AR_HEADER, int(header[48:58])
        if header[:16].startswith(b"data.tar"):
            return package[start : start + size]
        place = start + size + size % 2
    raise NotFetched("not a Debian package: it has no data")


def _put(place: Path, program: bytes) -> None:
    """Write a temporary file and rename it, since another run may do the same."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=place.parent, delete=False) as file:
        file.write(program)
        os.fchmod(file.fileno(), 0o755)
    Path(file.name).replace(place)


def main() -> int:
    """Fetch every program for this machine. Where that fails, the tests that need it fail."""
    programs = dict.fromkeys(line.split()[0] for line in PINS.read_text("utf-8").splitlines() if line[0] != "#")
    for program in programs:
        try:
            tool(program)
        except NotFetched as error:
            print(error, file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
