"""The clients of the fleet against the stand-in for Coder, whose workspaces are processes in terminals."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import Any

import httpx2
import pytest
from pydantic import SecretStr
from tests.integration.fleet.lab import QUICK
from tests.integration.real_parts import until

from fleet.coder.client import PROMPT, Coder
from fleet.coder.model import Template, Workspace
from fleet.reaching.http import Http, Limits
from fleet.terminal.agent_api import Said, Status, Terminal
from pallas_contracts.errors import Conflict, NotFound, Rejected, Unavailable
from pallas_demo.coder import CoderStandIn, Fault, StandInSettings

APPS_HOST = "apps.example"


class _ToTheStandIn(httpx2.AsyncHTTPTransport):
    """Hosts of apps lead to the stand-in, as the DNS of a real Coder says."""

    def __init__(self, url: str) -> None:
        super().__init__(trust_env=False)
        self._port = httpx2.URL(url).port

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.url.host.endswith(APPS_HOST):
            request.url = request.url.copy_with(host="127.0.0.1", port=self._port)
        return await super().handle_async_request(request)


@asynccontextmanager
async def a_coder(limits: Limits | None = None, **settings: Any) -> AsyncGenerator[tuple[Coder, CoderStandIn]]:
    """A client and the stand-in that it calls."""
    given: dict[str, Any] = {"build_seconds": 0.02, "terminal": QUICK} | settings
    async with CoderStandIn(StandInSettings(**given)) as stand_in:
        http = Http(stand_in.url, SecretStr(stand_in.token), limits=limits, transport=_ToTheStandIn(stand_in.url))
        try:
            yield Coder(http), stand_in
        finally:
            await http.close()


async def template(coder: Coder, name: str) -> Template:
    """A template by the name that people see."""
    return next(one for one in await coder.templates() if one.display_name == name)


async def created(coder: Coder, project: str = "Setup", prompt: str = "say hello", name: str = "papi") -> Workspace:
    chosen = await template(coder, project)
    role = (await coder.roles(chosen))[0]
    parameters = {PROMPT: prompt} | dict([role.parameter] if role.parameter else [])
    made = await coder.create(name, chosen, preset_id=role.preset_id, parameters=parameters)
    assert not made.running

    found: Workspace | None = None

    async def runs() -> bool:
        nonlocal found
        found = await coder.workspace(made.id)
        return found is not None and found.running

    await until(runs)
    assert found is not None
    return found


def terminal_of(coder: Coder, workspace: Workspace) -> Terminal:
    found = coder.terminal(workspace)
    assert found is not None
    return found


async def is_stable(terminal: Terminal) -> None:
    """Wait for the end of what the agent does."""

    async def look() -> bool:
        return await terminal.status() == "stable"

    await until(look)


async def test_an_agent_is_made_watched_told_and_deleted() -> None:
    async with a_coder() as (coder, stand_in):
        workspace = await created(coder, prompt="report halfway; pr https://x/pull/7 open passing")
        terminal = terminal_of(coder, workspace)
        await stand_in.agent("papi").until("stable")
        await is_stable(terminal)
        assert [one.name for one in await coder.workspaces()] == ["papi"]
        assert await coder.prompt(workspace) == "report halfway; pr https://x/pull/7 open passing"
        told = await coder.metadata(workspace)
        assert told["pull_request_url"] == "https://x/pull/7"
        assert told["agent_spec"].startswith("report halfway")
        state = await coder.task_state(workspace)
        assert state is not None
        assert state.state in ("working", "idle", "complete")
        before = len(await terminal.messages())
        await terminal.say("write a.txt: hello")
        await is_stable(terminal)
        said = await terminal.messages()
        assert [(one.role, one.text) for one in said[before:][:1]] == [("user", "write a.txt: hello")]
        assert (stand_in.agent("papi").folder / "a.txt").read_text().strip() == "hello"
        build = await coder.start_build(workspace.id, "delete")

        async def gone() -> bool:
            return await coder.workspace(workspace.id) is None

        await until(gone)
        ended = await coder.build(build)
        assert ended is None or ended.status == "succeeded"
        assert await coder.workspaces() == ()


@pytest.mark.parametrize("generation", ["v2", "experimental", "none"])
async def test_what_an_agent_reports_is_known_from_every_generation(generation: str) -> None:
    async with a_coder(generation=generation) as (coder, _):
        workspace = await created(coder, prompt="ask which database?")

        async def asks() -> bool:
            found = await coder.workspace(workspace.id)
            assert found is not None
            state = await coder.task_state(found)
            return state is not None and "database" in state.message and state.needs_user_attention is True

        await until(asks)
        assert await coder.prompt(workspace) == "ask which database?"


@pytest.mark.parametrize("lower", [False, True])
async def test_roles_are_presets_or_options(lower: bool) -> None:
    async with a_coder(lower_presets=lower) as (coder, _):
        presets = await coder.roles(await template(coder, "Setup"))
        assert [role.name for role in presets] == ["coder", "operator", "manager"]
        assert all(role.preset_id for role in presets)
        options = await coder.roles(await template(coder, "DataOne"))
        assert options
        assert all(role.parameter and role.parameter[0] == "role" for role in options)
        await created(coder, "DataOne")


async def test_refusals_of_coder_are_told_apart() -> None:
    async with a_coder() as (coder, _):
        workspace = await created(coder)
        chosen = await template(coder, "Setup")
        with pytest.raises(Conflict, match="already exists"):
            await coder.create("Papi", chosen, preset_id=None, parameters={PROMPT: "x"})
        with pytest.raises(Rejected, match="name: "):
            await coder.create("a@b", chosen, preset_id=None, parameters={PROMPT: "x"})
        with pytest.raises(NotFound):
            await coder.start_build("00000000-0000-4000-8000-000000000000", "delete")
        assert await coder.workspace("00000000-0000-4000-8000-000000000000") is None
        assert await coder.workspace("nonsense") is None
        assert await coder.build("00000000-0000-4000-8000-000000000000") is None
        await coder.start_build(workspace.id, "stop")
        with pytest.raises(Conflict) as caught:
            await coder.start_build(workspace.id, "delete")
        assert caught.value.code == "build_active"


async def test_a_build_that_fails_says_why() -> None:
    async with a_coder() as (coder, _):
        chosen = await template(coder, "Broken")
        made = await coder.create("papi", chosen, preset_id=None, parameters={PROMPT: "x"})

        async def failed() -> bool:
            build = await coder.build(made.build_id)
            assert build is not None
            return build.status == "failed" and build.error != ""

        await until(failed)
        found = await coder.workspace(made.id)
        assert found is not None
        assert (found.running, found.job_status, bool(found.job_error)) == (False, "failed", True)


async def test_a_workspace_without_agentapi_has_no_terminal() -> None:
    async with a_coder() as (coder, _):
        assert coder.terminal(await created(coder, "Plain")) is None


async def test_an_escape_interrupts_and_a_busy_agent_takes_no_prompt() -> None:
    async with a_coder() as (coder, stand_in):
        terminal = terminal_of(coder, await created(coder))
        await is_stable(terminal)
        await terminal.say("work 60 s")
        assert await terminal.status() == "running"
        with pytest.raises(Conflict):
            await terminal.say("more")
        await terminal.press("\x1b")
        await is_stable(terminal)
        assert stand_in.agent("papi").escapes == 1
        assert stand_in.agent("papi").prompts == ["say hello", "work 60 s"]


async def test_events_begin_with_what_is_and_go_on_to_the_end() -> None:
    async with a_coder() as (coder, _):
        terminal = terminal_of(coder, await created(coder))
        await is_stable(terminal)
        known = {one.id: one.text for one in await terminal.messages()}
        heard: dict[int, str] = {}
        working, telling = False, None
        async with asyncio.timeout(20), aclosing(terminal.events()) as events:
            async for event in events:
                if isinstance(event, Said):
                    heard[event.id] = event.text
                elif isinstance(event, Status) and event.status == "running":
                    working = True
                elif isinstance(event, Status) and working:
                    break
                elif isinstance(event, Status):
                    assert heard == known
                    telling = asyncio.create_task(terminal.say("say again"))
        assert telling is not None
        await telling
        assert {one.id: one.text for one in await terminal.messages()} == heard


async def test_a_prompt_whose_answer_is_lost_is_uncertain() -> None:
    async with a_coder() as (coder, stand_in):
        terminal = terminal_of(coder, await created(coder))
        await is_stable(terminal)
        await stand_in.fault(Fault(mode="lose_answer", times=1))
        with pytest.raises(Unavailable) as caught:
            await terminal.say("write a.txt: once")
        assert caught.value.code == "uncertain"
        await is_stable(terminal)
        assert stand_in.agent("papi").prompts == ["say hello", "write a.txt: once"]


async def test_a_terminal_that_does_not_expect_its_host_name_says_so() -> None:
    async with a_coder(wildcard=f"*.{APPS_HOST}") as (coder, _):
        terminal = terminal_of(coder, await created(coder))
        with pytest.raises(Unavailable, match="does not allow its host name") as caught:
            await terminal.status()
        assert caught.value.facts == {"reason": "host", "status": 400}


async def test_an_app_at_a_host_of_its_own_is_reached_with_the_token() -> None:
    anywhere = replace(QUICK, allowed_hosts=("*",))
    async with a_coder(wildcard=f"*.{APPS_HOST}", terminal=anywhere) as (coder, _):
        terminal = terminal_of(coder, await created(coder))
        assert terminal.url.host.endswith(f".{APPS_HOST}")
        await is_stable(terminal)


@pytest.mark.parametrize(
    ("mode", "reasons"),
    [
        ("refuse", {"refused", "reset", "broken"}),
        ("hang", {"timeout"}),
        ("reset", {"reset", "broken"}),
        ("bad_gateway", {"status"}),
        ("html", {"not_json"}),
        ("expired", {"unauthorized"}),
    ],
)
async def test_a_coder_that_is_away_comes_back(mode: Any, reasons: set[str]) -> None:
    limits = Limits(request=0.3, call=0.4) if mode == "hang" else Limits(pauses=(0, 0))
    async with a_coder(limits) as (coder, stand_in):
        assert await coder.workspaces() == ()
        await stand_in.fault(Fault(mode=mode))
        for call in (coder.workspaces(), coder.templates(), coder.start_build("x", "stop")):
            with pytest.raises(Unavailable) as caught:
                await call
            assert caught.value.facts["reason"] in reasons
        await stand_in.heal()
        assert await coder.workspaces() == ()
