"""Tools come from pinned Debian packages: only the pinned one is taken, from the first mirror that has it."""

import hashlib
import io
import tarfile
import threading
from collections.abc import Generator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.debian_tools import NotFetched, Pin, fetched, unpacked

PROGRAM = b"#!/bin/sh\necho a program of odd length\n"


def a_package(name: str = "tool") -> bytes:
    """A Debian package with one program."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:xz") as files:
        entry = tarfile.TarInfo(f"./usr/bin/{name}")
        entry.size = len(PROGRAM)
        files.addfile(entry, io.BytesIO(PROGRAM))
    members = {"debian-binary": b"2.0", "control.tar.xz": b"odd", "data.tar.xz": data.getvalue()}
    return b"!<arch>\n" + b"".join(_member(name, content) for name, content in members.items())


def _member(name: str, content: bytes) -> bytes:
    header = f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(content):<10}`\n".encode()
    return header + content + b"\n" * (len(content) % 2)


@pytest.fixture
def mirror(tmp_path: Path) -> Generator[tuple[Path, str]]:
    """A folder, and where it is served."""

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *_: Any, **__: Any) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(tmp_path))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield tmp_path, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def pin_of(package: bytes) -> Pin:
    return Pin("tool", hashlib.sha256(package).hexdigest(), "pool/tool.deb")


def put(folder: Path, package: bytes) -> None:
    (folder / "pool").mkdir(parents=True, exist_ok=True)
    (folder / "pool" / "tool.deb").write_bytes(package)


def test_the_program_is_unpacked_from_its_package() -> None:
    assert unpacked(a_package(), "tool") == PROGRAM


def test_a_package_without_the_program_is_refused() -> None:
    with pytest.raises(NotFetched, match="no such program"):
        unpacked(a_package("other"), "tool")


def test_the_next_mirror_is_tried_when_one_lacks_the_package_or_has_another(mirror: tuple[Path, str]) -> None:
    folder, url = mirror
    put(folder / "other", b"another package")
    put(folder / "right", a_package())
    places = [f"{url}/empty", f"{url}/other", f"{url}/right"]
    assert fetched(pin_of(a_package()), places) == a_package()


def test_a_package_with_another_digest_is_refused(mirror: tuple[Path, str]) -> None:
    folder, url = mirror
    put(folder, b"another package")
    with pytest.raises(NotFetched, match="another SHA-256"):
        fetched(pin_of(a_package()), [url])
