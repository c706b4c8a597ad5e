"""Checks of services over HTTP: whether each is ready, and whether its clock and ours agree."""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from time import time
from typing import TYPE_CHECKING

from pallas_cli.doctor.finding import Finding, left_out, ok, warning, wrong

if TYPE_CHECKING:
    import httpx

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
    """Tokens and leases compare times of different machines."""
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
