"""What Coder may answer: in other versions, with other settings, and as an attacker would."""

import asyncio
import copy
import json
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr
from tests.unit.fleet.recordings import answering, coder_of, http_of, recorded

from fleet.coder.client import DEFAULT, Coder
from fleet.coder.model import App, AppStatus, Template, Workspace, WorkspaceAgent
from fleet.coder.rest import Rest
from fleet.coder.tasks import TaskApi
from fleet.reaching.http import Http
from pallas_contracts.errors import Conflict, NotFound, Rejected, Unavailable

RUNNING: dict[str, Any] = recorded(6)
WORKSPACE = Workspace.model_validate(RUNNING)
ONE = f"/api/v2/workspaces/{WORKSPACE.id}"
TEMPLATE = Template(id="t", name="t", organization_id="o", active_version_id="v")
VERSION = "/api/v2/templateversions/v"


def with_apps(**changes: Any) -> Workspace:
    """A workspace whose terminal's app is different."""
    app = App(slug="ccw", id="a").model_copy(update=changes)
    agent = WorkspaceAgent(id="g", name="main", status="connected", lifecycle="ready", apps=(app,))
    return WORKSPACE.model_copy(update={"agents": (agent,)})


@pytest.mark.parametrize("lower", [False, True], ids=["capitals", "lower case"])
async def test_presets_are_roles_in_both_spellings(lower: bool) -> None:
    presets = [{"id" if lower else "ID": "p1", "name" if lower else "Name": "Site Reliability"}]
    [role] = await coder_of(answering({f"{VERSION}/presets": presets})).roles(TEMPLATE)
    assert (role.name, role.display_name, role.preset_id) == ("site-reliability", "Site Reliability", "p1")


async def test_options_of_a_parameter_are_roles_where_there_are_no_presets() -> None:
    options = [{"name": "Coder", "value": "c", "description": "writes code"}, {"name": "coder", "value": "x"}]
    parameters = [{"name": "AI Prompt", "options": None}, {"name": "agent_role", "options": options}]
    answers = {f"{VERSION}/presets": None, f"{VERSION}/rich-parameters": parameters}
    [role] = await coder_of(answering(answers)).roles(TEMPLATE)
    assert (role.name, role.description, role.parameter) == ("coder", "writes code", ("agent_role", "c"))


async def test_a_template_without_roles_has_one() -> None:
    assert await coder_of(answering({})).roles(TEMPLATE) == (DEFAULT,)


@pytest.mark.parametrize("generation", ["api/v2/tasks", "api/experimental/tasks"])
async def test_either_generation_of_the_task_api_is_found_and_asked_first(generation: str) -> None:
    state = {"state": "failure", "message": "no tests", "timestamp": "2027-01-01T00:00:00Z"}
    asked: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request.url.path)
        if generation in request.url.path:
            return httpx2.Response(200, json={"current_state": state})
        return httpx2.Response(404)

    tasks = TaskApi(Rest(http_of(httpx2.MockTransport(answer))))
    for _ in range(2):
        found = await tasks.state(WORKSPACE)
        assert found is not None
        assert (found.state, found.message, found.needs_user_attention) == ("failed", "no tests", None)
    assert asked[-1].startswith(f"/{generation}/owner/")
    assert len(asked) == (2 if "v2" in generation else 3)


async def test_a_workspace_says_what_its_agent_does_where_there_is_no_task_api() -> None:
    status = AppStatus.model_validate(
        {"state": "idle", "message": "which one?", "needs_user_attention": True, "created_at": "2027-01-01T00:00:00Z"}
    )
    found = await coder_of(answering({})).task_state(with_apps(statuses=(status,)))
    assert found is not None
    assert (found.state, found.message, found.needs_user_attention) == ("idle", "which one?", True)
    assert await coder_of(answering({})).task_state(with_apps()) is None


@pytest.mark.parametrize(("state", "second", "asks"), [("idle", 4, True), ("idle", 9, False), ("working", 4, False)])
async def test_a_question_stays_one_when_coder_tells_that_the_terminal_is_idle(
    state: str, second: int, asks: bool
) -> None:
    told = [("idle", True, 0), ("working", False, 1), (state, False, second)]
    statuses = tuple(
        AppStatus.model_validate(
            {
                "state": one,
                "message": "which one?",
                "needs_user_attention": flag,
                "created_at": f"2027-01-01T00:00:0{at}Z",
            }
        )
        for one, flag, at in told
    )
    found = await coder_of(answering({})).task_state(with_apps(statuses=statuses))
    assert found is not None
    assert (found.state, found.needs_user_attention) == (state, asks)


async def test_the_prompt_is_a_parameter_or_that_of_the_task() -> None:
    path = f"/api/v2/workspacebuilds/{WORKSPACE.build_id}/parameters"
    parameters = [{"name": "system_prompt", "value": "s"}, {"name": "AI Prompt", "value": "do it"}]
    assert await coder_of(answering({path: parameters})).prompt(WORKSPACE) == "do it"
    task = {f"/api/v2/tasks/owner/{WORKSPACE.id}": {"initial_prompt": "from the task"}}
    assert await coder_of(answering(task)).prompt(WORKSPACE) == "from the task"
    assert await coder_of(answering({})).prompt(WORKSPACE) == ""


async def test_metadata_are_told_once_by_key_without_numbers() -> None:
    items = [
        {"result": {"value": value, "error": error}, "description": {"key": key}}
        for key, value, error in (
            ("11_agent_spec", "Implement it\n", ""),
            ("8_pull_request_url", "https://x/pull/1", ""),
            ("9_pull_request_status", "n/a", ""),
            ("10_pull_request_check_status", "", ""),
            ("2_cpu", "7", "exit 1"),
        )
    ]
    text = f": hello\n\nevent: ping\n\nevent: data\ndata: {json.dumps(items)}\n\n"
    stream = httpx2.Response(200, text=text, headers={"content-type": "text/event-stream"})
    path = f"/api/v2/workspaceagents/{WORKSPACE.agents[0].id}/watch-metadata"
    found = await coder_of(answering({path: stream})).metadata(WORKSPACE)
    assert found == {"agent_spec": "Implement it", "pull_request_url": "https://x/pull/1"}
    assert await coder_of(answering({})).metadata(WORKSPACE) == {}


async def test_all_pages_of_workspaces_are_read() -> None:
    async def page(request: httpx2.Request) -> httpx2.Response:
        assert request.url.params["q"] == "owner:me"
        offset, limit = int(request.url.params["offset"]), int(request.url.params["limit"])
        numbers = range(max(0, offset - 1), min(60, offset + limit))  # one appears on two pages
        return httpx2.Response(200, json={"workspaces": [RUNNING | {"id": f"{n}"} for n in numbers], "count": 60})

    found = await coder_of(httpx2.MockTransport(page)).workspaces()
    assert sorted(int(one.id) for one in found) == list(range(60))


async def test_a_deleted_workspace_is_none() -> None:
    gone = httpx2.Response(410, json={"message": "Workspace was deleted."})
    assert await coder_of(answering({ONE: gone})).workspace(WORKSPACE.id) is None


@pytest.mark.parametrize(("status", "kind"), [(409, Conflict), (404, NotFound), (400, Rejected), (422, Rejected)])
async def test_refusals_of_what_is_to_be_made(status: int, kind: type[Exception]) -> None:
    coder = coder_of(httpx2.MockTransport(lambda _: httpx2.Response(status, json={"message": "No. 42."})))
    with pytest.raises(kind, match=r"^Coder refuses: No\. 42\."):
        await coder.start_build("id", "delete")
    with pytest.raises(kind, match="already exists" if status == 409 else "Coder refuses"):
        await coder.create("papi", TEMPLATE, preset_id="p", parameters={"AI Prompt": "x"})


async def test_a_build_that_cannot_be_cancelled_any_more_is_no_error() -> None:
    await coder_of(httpx2.MockTransport(lambda _: httpx2.Response(412, json={}))).cancel_build("id")


async def test_a_coder_that_is_not_configured_is_unavailable() -> None:
    for http, missing in ((Http(None, None), "PALLAS_CODER_URL"), (Http("http://c", None), "PALLAS_CODER_TOKEN")):
        with pytest.raises(Unavailable, match=f"{missing} is not set") as caught:
            await Coder(http).templates()
        assert caught.value.facts == {"reason": "not_configured"}
        await http.close()


@pytest.mark.parametrize("url", ["coder", "ftp://c", "http://", "http://me:pass@c", "http://c?x=1", "http://c\x00"])
def test_an_address_that_is_none_names_the_setting(url: str) -> None:
    with pytest.raises(Rejected, match=r"^coder_url: ") as caught:
        Http(url, SecretStr("x"))
    assert "me:" not in caught.value.message


@pytest.mark.parametrize("token", ["", "two words", "line\nbreak-s3cret", "s3crét", "s3cret\x00"])
def test_a_token_that_is_none_is_not_shown(token: str) -> None:
    with pytest.raises(Rejected, match=r"^coder_token: ") as caught:
        Http("http://c", SecretStr(token))
    assert "cr" not in repr(caught.value)


def test_the_token_is_in_no_text() -> None:
    http = http_of(answering({}))
    assert "secret" not in f"{http!r} {vars(http)!r} {Coder(http)!r} {vars(Coder(http))!r}"


def test_other_apps_are_terminals_where_settings_or_coder_say_so() -> None:
    coder = Coder(http_of(answering({}), "https://x.example/coder/"), apps=("preview", "ccw"))
    terminal = coder.terminal(with_apps(slug="preview"))
    assert terminal is not None
    assert str(terminal.url) == "https://x.example/coder/@owner/test-recording-agent.main/apps/preview/"
    assert coder.terminal(with_apps(slug="claude")) is None
    assert coder.terminal(with_apps(slug="claude").model_copy(update={"task_app_id": "a"})) is not None


@pytest.mark.parametrize(
    ("host", "name", "address", "known"),
    [
        ("*.apps.example", "", "https://ccw--main--test-recording-agent--owner.apps.example/", True),
        ("*--x.apps.example:8443", "n--o", "https://n--o--x.apps.example:8443/", True),
        ("", "n--o", "https://coder.example/@owner/test-recording-agent.main/apps/ccw/", True),
    ],
)
async def test_an_app_may_have_a_host_of_its_own_which_gets_the_token(
    host: str, name: str, address: str, known: bool
) -> None:
    seen: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append(request)
        if request.url.path == "/api/v2/applications/host":
            return httpx2.Response(200, json={"host": host})
        if request.url.path == ONE:
            app = {"slug": "ccw", "id": "a", "subdomain": True, "subdomain_name": name}
            agent = {"id": "g", "name": "main", "status": "connected", "lifecycle_state": "ready", "apps": [app]}
            build = RUNNING["latest_build"] | {"resources": [{"agents": [agent]}, {"agents": None}, {}]}
            return httpx2.Response(200, json=RUNNING | {"latest_build": build})
        return httpx2.Response(200, json={"status": "stable"})

    coder = coder_of(httpx2.MockTransport(answer))
    found = await coder.workspace(WORKSPACE.id)
    assert found is not None
    assert found.running
    terminal = coder.terminal(found)
    assert terminal is not None
    assert str(terminal.url) == address
    assert await terminal.status() == "stable"
    assert ("coder-session-token" in seen[-1].headers) is known


@pytest.mark.parametrize(
    "url", ["https://evil.example/", "http://coder.example/", "https://coder.example:444/", "https://a.b.apps.example/"]
)
async def test_other_hosts_do_not_get_the_token(url: str) -> None:
    seen: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append(request)
        return httpx2.Response(200, json={})

    http = http_of(httpx2.MockTransport(answer))
    http.trust_apps("*.apps.example")
    rest = Rest(http)
    await http.send(rest.peer, "GET", httpx2.URL(url))
    await http.send(rest.peer, "GET", httpx2.URL("https://a.apps.example/"))
    assert ["coder-session-token" in one.headers for one in seen] == [False, True]


HOSTILE: dict[str, bytes] = {
    "deep": b"[" * 200_000,
    "deep object": b'{"workspaces": ' * 100_000,
    "huge number": b'{"id": 1' + b"0" * 5000 + b"}",
    "not UTF-8": b'{"id": "\xff"}',
    "surrogate": b'{"id": "\\ud800"}',
    "text": b'"x"',
    "null": b"null",
    "number": b"1e999",
    "empty": b"",
    "time": json.dumps(RUNNING | {"created_at": "0001-01-01T00:00:00+14:00"}).encode(),
    "no build": json.dumps(RUNNING | {"latest_build": None}).encode(),
    "agents": json.dumps(RUNNING | {"latest_build": RUNNING["latest_build"] | {"resources": [[1], "x", 2]}}).encode(),
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_hostile_answer_is_unavailable(name: str) -> None:
    coder = coder_of(httpx2.MockTransport(lambda _: httpx2.Response(200, content=HOSTILE[name])))
    with pytest.raises(Unavailable) as caught:
        await coder.workspace("id")
    assert caught.value.facts["reason"] in ("not_json", "unreadable")
    assert len(caught.value.message) < 600


def places(value: Any) -> list[tuple[Any, ...]]:
    """The ways to all parts of a value."""
    inner: Any = value.items() if hasattr(value, "items") else enumerate(value) if hasattr(value, "append") else ()
    return [(), *((key, *rest) for key, part in inner for rest in places(part))]


SMALL: dict[str, Any] = {key: RUNNING[key] for key in ("id", "name", "owner_name", "created_at", "updated_at")} | {
    "latest_build": {
        "id": "b",
        "transition": "start",
        "job": {"status": "succeeded", "error": ""},
        "resources": [
            {"agents": [{"id": "g", "apps": [{"slug": "ccw", "statuses": [{"state": "idle", "created_at": 0}]}]}]}
        ],
    }
}
PLACES = places(SMALL)
WRONG: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, 0, -1, 1e308, "", "x", [], {}, [None], {"a": None}, [[]], [{}], "9999-12-31T23:59:59-14:00"]
)


@given(st.sampled_from(PLACES[1:]), WRONG)
def test_a_part_of_a_wrong_type_is_read_or_unavailable(place: tuple[Any, ...], wrong: Any) -> None:
    document = copy.deepcopy(SMALL)
    part: Any = document
    for key in place[:-1]:
        part = part[key]
    part[place[-1]] = wrong

    async def read() -> None:
        coder = coder_of(answering({"/api/v2/workspaces/id": document}))
        try:
            found = await coder.workspace("id")
        except Unavailable:
            return
        assert found is not None
        assert found.running in (True, False)
        coder.terminal(found)
        assert found.reported is None or found.reported.state is not None

    asyncio.run(read())
