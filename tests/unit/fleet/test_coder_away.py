"""A Coder that is away in seven ways, on real sockets: each call ends in time as `Unavailable`, without the token."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from pydantic import SecretStr
from tests.unit.fleet.recordings import recorded
from tests.unit.fleet.socket_server import RESET, Reply, Request, json_reply, reply, self_signed, serving

from fleet.coder.client import Coder
from fleet.coder.model import Template, Workspace
from fleet.reaching.http import Http, Limits
from fleet.reaching.peer import NotSent
from fleet.terminal.agent_api import Terminal
from pallas_contracts.errors import Rejected, Unavailable
from pallas_hosting.redact import redact

TOKEN = "t0p-s3cret-token"
CALM = Limits(pauses=(0, 0))
HASTY = Limits(request=0.4, call=0.5)
WORKSPACE = Workspace.model_validate(recorded(6))
TEMPLATE = Template(id="t", name="t", organization_id="o", active_version_id="v")


async def _listen(terminal: Terminal) -> None:
    async for _ in terminal.events():
        pass


def _terminal(coder: Coder) -> Terminal:
    found = coder.terminal(WORKSPACE)
    assert found is not None
    return found


CODER: dict[str, Callable[[Coder], Awaitable[Any]]] = {
    "workspaces": lambda coder: coder.workspaces(),
    "workspace": lambda coder: coder.workspace("id"),
    "create": lambda coder: coder.create("papi", TEMPLATE, preset_id=None, parameters={}),
    "start_build": lambda coder: coder.start_build("id", "delete"),
    "cancel_build": lambda coder: coder.cancel_build("id"),
    "build": lambda coder: coder.build("id"),
    "templates": lambda coder: coder.templates(),
    "roles": lambda coder: coder.roles(TEMPLATE),
    "metadata": lambda coder: coder.metadata(WORKSPACE),
    "prompt": lambda coder: coder.prompt(WORKSPACE),
    "task_state": lambda coder: coder.task_state(WORKSPACE),
}
TERMINAL: dict[str, Callable[[Coder], Awaitable[Any]]] = {
    "status": lambda coder: _terminal(coder).status(),
    "messages": lambda coder: _terminal(coder).messages(),
    "say": lambda coder: _terminal(coder).say("hello"),
    "press": lambda coder: _terminal(coder).press("\x1b"),
    "events": lambda coder: _listen(_terminal(coder)),
}
AWAY: dict[str, tuple[Reply, set[str], int | None, tuple[str, ...]]] = {
    "hangs": (None, {"timeout"}, None, ()),
    "resets": (RESET, {"reset", "broken"}, None, ()),
    "502": (reply(502, "<h1>Bad Gateway</h1>", "text/html"), {"status"}, 502, ()),
    "html": (reply(200, "<!doctype html><p>Welcome", "text/html"), {"not_json", "status"}, 200, ("cancel_build",)),
    "expired": (reply(401, '{"message": "Cookie \\"coder_session_token\\" is invalid."}'), {"unauthorized"}, 401, ()),
    "redirects": (reply(303, location="http://127.0.0.1:1/login"), {"redirect", "unauthorized"}, 303, ()),
    "half": (reply(200, "x" * 99)[:-50] + RESET, {"reset", "broken"}, None, ("events", "metadata")),
}
"""What Coder does, the reasons and the status that errors have, and the calls that do not notice it."""


@asynccontextmanager
async def client(url: str, limits: Limits = CALM) -> AsyncGenerator[Coder]:
    """A client of the Coder at `url`."""
    http = Http(url, SecretStr(TOKEN), limits=limits)
    try:
        yield Coder(http)
    finally:
        await http.close()


async def failure(doing: Awaitable[Any]) -> Unavailable:
    """How a call fails."""
    with pytest.raises(Unavailable) as caught:
        await doing
    assert TOKEN not in f"{caught.value!r} {caught.value.facts} {caught.value.__cause__!r}"
    return caught.value


async def failures(coder: Coder, *left_out: str) -> dict[str, Unavailable]:
    """How every call fails, all made at once."""
    calls = {name: call for name, call in (CODER | TERMINAL).items() if name not in left_out}
    return dict(zip(calls, await asyncio.gather(*(failure(call(coder)) for call in calls.values())), strict=True))


@pytest.mark.parametrize("way", AWAY)
async def test_every_call_says_how_coder_is_away(way: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    answer, reasons, status, unharmed = AWAY[way]
    limits = HASTY if way == "hangs" else CALM
    async with serving(lambda _: answer) as server, client(server.url, limits) as coder:
        for name, error in (await failures(coder, *unharmed)).items():
            uncertain = name == "say" and way in ("hangs", "resets", "half", "502", "html")
            code = "uncertain" if uncertain else "coder_unavailable" if name in CODER else "terminal_unavailable"
            assert error.code == code, name
            assert server.url not in error.message, name
            assert redact(error.message) == error.message, name  # a task that fails with it says all of it
            assert error.facts["reason"] in reasons, (name, error.facts)
            assert error.facts["status"] == status, name
    assert TOKEN not in caplog.text


async def test_every_call_says_that_coder_refuses_connections() -> None:
    async with serving(lambda _: None) as server:
        pass
    async with client(server.url) as coder:
        for name, error in (await failures(coder)).items():
            assert error.message.endswith("does not answer: connection refused."), name
            assert isinstance(error, NotSent), name
            assert error.facts == {"reason": "refused", "status": None}, name


async def test_every_call_says_that_the_certificate_is_not_trusted(tmp_path: Path) -> None:
    async with serving(lambda _: None, self_signed(tmp_path)) as server, client(server.url) as coder:
        for name, error in (await failures(coder)).items():
            assert error.message.endswith("does not answer: its certificate is not trusted."), name
            assert error.facts["reason"] == "certificate", name
        assert server.requests == []


async def test_a_coder_with_a_certificate_of_its_own_ca_is_reached(tmp_path: Path) -> None:
    async with serving(lambda _: json_reply([]), self_signed(tmp_path)) as server:
        _, _, certificate = (tmp_path / "coder.pem").read_text("ascii").partition("-----END PRIVATE KEY-----\n")
        http = Http(server.url, SecretStr(TOKEN), ca=certificate)
        assert await Coder(http).templates() == ()
        await http.close()


@pytest.mark.parametrize(
    "ca", ["", "nonsense", "\u20ac", "-----BEGIN CERTIFICATE-----\nAA\n-----END CERTIFICATE-----\n"]
)
def test_what_is_no_certificate_is_refused(ca: str) -> None:
    with pytest.raises(Rejected, match="coder_ca: must be CA certificates"):
        Http("https://127.0.0.1", SecretStr(TOKEN), ca=ca)


def test_a_call_ends_before_a_tool_has_to_answer() -> None:
    assert Limits().call <= 12
    assert Limits().request <= 10


@pytest.mark.parametrize("broken", [reply(502), reply(503), reply(504), RESET], ids=["502", "503", "504", "reset"])
async def test_a_get_is_tried_three_times_and_a_post_once(broken: bytes) -> None:
    async with serving(lambda _: broken) as server, client(server.url) as coder:
        await failure(coder.templates())
        assert [one.method for one in server.requests] == ["GET"] * 3
        await failure(coder.start_build("id", "delete"))
        assert [one.method for one in server.requests[3:]] == ["POST"]


async def test_a_get_that_succeeds_at_the_third_try_succeeds() -> None:
    answers = iter([reply(502), RESET, json_reply([])])
    async with serving(lambda _: next(answers)) as server, client(server.url) as coder:
        assert await coder.templates() == ()


async def test_an_answer_that_trickles_ends_in_time() -> None:
    async def trickle() -> AsyncGenerator[bytes]:
        while True:
            yield b" "
            await asyncio.sleep(0.01)

    async with serving(lambda _: trickle()) as server, client(server.url, HASTY) as coder:
        assert (await failure(coder.templates())).facts["reason"] == "timeout"


async def test_pages_end_in_time_together() -> None:
    page = json_reply({"workspaces": [], "count": 60})
    async with (
        serving(lambda asked: page if "offset=0" in asked.path else None) as server,
        client(server.url, Limits(request=9, call=0.2)) as coder,
    ):
        assert (await failure(coder.workspaces())).facts["reason"] == "timeout"
        assert len(server.requests) == 3


async def test_the_token_goes_to_coder_alone() -> None:
    async with serving(lambda _: json_reply([])) as stranger:

        def answer(request: Request) -> Reply:
            return reply(307, location=f"{stranger.url}{request.path}")

        async with serving(answer) as server, client(server.url) as coder:
            await failure(coder.templates())
            assert [one.headers["coder-session-token"] for one in server.requests] == [TOKEN]
            assert stranger.requests == []
            http = Http(server.url, SecretStr(TOKEN))
            direct = Terminal(http, httpx2.URL(f"{stranger.url}/"), "x")
            with pytest.raises(Unavailable):
                await direct.status()
            await http.close()
            assert "coder-session-token" not in stranger.requests[0].headers


async def test_proxies_of_the_environment_and_cookies_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    answer = reply(200, "[]", set_cookie="coder_session_token=other; Path=/")
    async with serving(lambda _: answer) as server, client(server.url) as coder:
        await coder.templates()
        await coder.templates()
        assert all("cookie" not in one.headers for one in server.requests)
        assert len(server.requests) == 2


async def test_an_answer_has_a_bound() -> None:
    def huge(_: Request) -> AsyncGenerator[bytes]:
        async def parts() -> AsyncGenerator[bytes]:
            while True:
                yield b"[" * 65536

        return parts()

    async with serving(huge) as server, client(server.url) as coder:
        error = await failure(coder.templates())
        assert error.facts["reason"] == "too_large"


async def test_a_compressed_answer_is_not_read() -> None:
    bomb = reply(200, b"\x1f\x8b", content_encoding="gzip")
    async with serving(lambda _: bomb) as server, client(server.url) as coder:
        assert (await failure(coder.templates())).facts["reason"] == "compressed"
