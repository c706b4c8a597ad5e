"""Who may do what over HTTP: keys with roles, bearers, and things of others that are as if they did not exist."""

import uuid
from contextlib import AsyncExitStack

from tests.conftest import Connecting
from tests.integration.agent_gateway.bearers import resolving
from tests.integration.pipelines.api import ADD, Api, api_of
from tests.integration.pipelines.lab import Lab
from tests.requirements import requirement

from pallas_contracts.agents import JsonObject
from pallas_contracts.catalog import RESOLVER
from pallas_contracts.turns import Principal

KEYS = {role: f"{role.lower()}-{'k' * 24}" for role in ("ReadOnly", "Execute", "Write", "Admin")}
NEEDED: list[tuple[str, str, JsonObject | None, int]] = [
    ("GET", "/modules", None, 1),
    ("GET", "/modules/published", None, 1),
    ("GET", "/modules/stdlib.math.add", None, 1),
    ("GET", "/namespaces", None, 1),
    ("GET", "/namespaces/stdlib.math", None, 1),
    ("GET", "/signatures", None, 1),
    ("POST", "/validate", {"source": ADD}, 1),
    ("POST", "/compile", {"source": ADD}, 1),
    ("POST", "/diff", {"left": ADD, "right": ADD}, 1),
    ("GET", "/pipelines", None, 1),
    ("GET", "/pipelines/x", None, 1),
    ("GET", "/pipelines/x/versions", None, 1),
    ("GET", "/pipelines/x/dag.mmd", None, 1),
    ("GET", "/pipelines/x/dag.svg", None, 1),
    ("GET", "/executions", None, 1),
    ("GET", "/executions/x", None, 1),
    ("GET", "/executions/x/events", None, 1),
    ("GET", "/executions/x/dag.svg", None, 1),
    ("GET", "/history", None, 1),
    ("POST", "/run", {"source": ADD, "inputs": {"a": 1, "b": 2}}, 2),
    ("POST", "/execute", {"ref": "x", "inputs": {}}, 2),
    ("POST", "/batch", {"source": ADD, "inputs": [{"a": 1, "b": 2}]}, 2),
    ("POST", "/modules/stdlib.math.add/invoke", {"a": 1, "b": 2}, 2),
    ("POST", "/executions/x/resume", {}, 2),
    ("DELETE", "/executions/x", None, 2),
    ("POST", "/compile", {"source": ADD, "name": "shared/x"}, 3),
    ("DELETE", "/pipelines/y", None, 3),
    ("PUT", "/pipelines/y/alias", {"structuralHash": "0" * 64}, 3),
    ("POST", "/pipelines/y/reload", {}, 3),
    ("POST", "/pipelines/y/rollback", None, 3),
]
"""Every route, and the number of the scope that it needs: read, execute, write."""


@requirement("C-sec-1")
async def test_each_route_needs_its_scope(lab: Lab) -> None:
    keys = ",".join(f"{key}:{role}" for role, key in KEYS.items())
    replica = await lab.replica(constellation_api_keys=keys, pipeline_rate="6000", pipeline_burst="100")
    async with AsyncExitStack() as stack:
        nobody = await stack.enter_async_context(api_of(replica))
        wrong = await stack.enter_async_context(api_of(replica, Authorization=f"Bearer {'w' * 30}"))
        of_keys = [
            await stack.enter_async_context(api_of(replica, Authorization=f"Bearer {key}")) for key in KEYS.values()
        ]
        for method, path, body, needed in NEEDED:
            for api in (nobody, wrong):
                assert (await api.asks(method, path, body, 401))["error"] == "Unauthorized"
            for number, api in enumerate(of_keys, 1):
                found = await api.http.request(method, path, json=body)
                assert found.status_code != 401, path
                assert (found.status_code == 403) == (number < needed), (path, number, found.text)
                if found.status_code == 403:
                    assert found.json()["error"] == "Forbidden"
        for path in ("/health", "/health/live", "/health/ready", "/metrics"):
            assert (await wrong.http.get(path)).status_code == 200


@requirement("C-sec-5")
async def test_what_another_owns_is_answered_as_what_does_not_exist(lab: Lab, bus: Connecting) -> None:
    names = [f"{each}{uuid.uuid4().hex[:8]}" for each in ("alice", "bob")]
    bearers = {f"of-{each}": Principal(type="user", id=f"usr_{each}", name=each) for each in names}
    async with resolving(await bus(RESOLVER), bearers), AsyncExitStack() as stack:
        replica = await lab.replica(gateway_auth="required", pipeline_rate="6000", pipeline_burst="200")
        # Whoever has a bearer is not who a header says.
        label = {"X-Constellation-Agent": "claude-code:alice@acme.com"}
        alice, bob = [
            await stack.enter_async_context(api_of(replica, Authorization=f"Bearer {each}", **label))
            for each in bearers
        ]
        name = (await alice.post("/compile", {"source": ADD, "name": "mine"}))["storedAs"]
        assert name == f"user:{names[0]}/mine"
        draft = ADD.replace("sum", "total")
        digest = (await alice.post("/compile", {"source": draft}))["structuralHash"]
        waits = (await alice.post("/run", {"source": ADD, "inputs": {}}))["executionId"]
        ended = (await alice.post("/run", {"source": ADD, "inputs": {"a": 1, "b": 1}}))["executionId"]

        for there, absent in (
            (f"user%3A{names[0]}%2Fmine", f"user%3A{names[0]}%2Fnone"),
            (f"sha256%3A{digest}", f"sha256%3A{'0' * 64}"),
        ):
            for method, part in (
                ("GET", ""),
                ("GET", "/versions"),
                ("GET", "/dag.svg"),
                ("GET", "/dag.mmd"),
                ("DELETE", ""),
                ("POST", "/reload"),
                ("POST", "/rollback"),
            ):
                await _same(bob, method, "/pipelines/{}" + part, None, there, absent)
        for there, absent in ((name, f"user:{names[0]}/none"), (f"sha256:{digest}", f"sha256:{'0' * 64}")):
            await _same(bob, "POST", "/execute", {"ref": "{}", "inputs": {}}, there, absent)
            await _same(bob, "POST", "/batch", {"ref": "{}", "inputs": [{}]}, there, absent)
            await _same(bob, "POST", "/diff", {"left": ADD, "right": "{}"}, there, absent)
        await _same(bob, "PUT", "/pipelines/own/alias", {"structuralHash": "{}"}, digest, "0" * 64)
        for there in (waits, ended):
            for method, part in (
                ("GET", ""),
                ("GET", "/events"),
                ("GET", "/dag.svg"),
                ("DELETE", ""),
                ("POST", "/resume"),
            ):
                await _same(bob, method, "/executions/{}" + part, None, there, "0" * 32)
        for path, field in (("/executions", "executions"), ("/history", "executions")):
            assert (await bob.get(path))[field] == []
            assert (await bob.get(f"{path}?agent=claude-code:alice@acme.com"))[field] == []
        assert name not in {each["name"] for each in (await bob.get("/pipelines"))["pipelines"]}
        assert (await bob.get(f"/pipelines?namespace=user:{names[0]}"))["pipelines"] == []
        assert [each["executionId"] for each in (await alice.get("/history"))["executions"]] == [ended, waits]

        # A name that both give is each one's own.
        assert (await bob.post("/compile", {"source": draft, "name": "mine"}))["storedAs"] == f"user:{names[1]}/mine"
        assert (await alice.get("/pipelines/mine"))["source"] == ADD


@requirement("C-ns-1")
async def test_what_a_user_makes_is_there_with_each_of_its_tokens(lab: Lab, bus: Connecting) -> None:
    user = f"ann{uuid.uuid4().hex[:8]}"
    laptop, desktop = (Principal(type="token", id=f"{each}-{user}", name=each, user=user) for each in "ld")
    earlier = laptop.model_copy(update={"user": None})  # as tokens were resolved when pipelines were theirs
    bearers = {"of-laptop": laptop, "of-desktop": desktop, "earlier": earlier}
    async with resolving(await bus(RESOLVER), bearers), AsyncExitStack() as stack:
        replica = await lab.replica(gateway_auth="required")
        first, second, before = [
            await stack.enter_async_context(api_of(replica, Authorization=f"Bearer {each}")) for each in bearers
        ]
        assert (await first.post("/compile", {"source": ADD, "name": "mine"}))["storedAs"] == f"user:{user}/mine"
        assert (await second.post("/execute", {"ref": "mine", "inputs": {"a": 1, "b": 2}}))["outputs"] == {"sum": 3}
        waits = (await first.post("/run", {"source": ADD, "inputs": {"a": 1}}))["executionId"]
        found = await second.get("/executions")
        assert [each["executionId"] for each in found["executions"]] == [waits]
        resumed = await second.post(f"/executions/{waits}/resume", {"additionalInputs": {"b": 6}})
        assert resumed["outputs"] == {"sum": 7}
        assert {each["executionId"] for each in (await first.get("/history"))["executions"]} >= {waits}
        await before.post("/compile", {"source": ADD.replace("sum", "old"), "name": "old"})
        await second.post("/execute", {"ref": "old", "inputs": {"a": 1, "b": 2}}, 404)
        assert (await first.post("/execute", {"ref": "old", "inputs": {"a": 1, "b": 2}}))["outputs"] == {"old": 3}


@requirement("C-ns-1")
async def test_two_users_of_one_key_have_pipelines_of_their_own(lab: Lab) -> None:
    users = [f"{each}{uuid.uuid4().hex[:8]}" for each in ("alice", "bob")]
    key = f"one-key-{'k' * 24}"
    replica = await lab.replica(constellation_api_keys=f"{key}:Write")
    async with AsyncExitStack() as stack:
        alice, bob = [
            await stack.enter_async_context(
                api_of(replica, Authorization=f"Bearer {key}", **{"X-Constellation-Agent": f"a:{user}@acme.com"})
            )
            for user in users
        ]
        for user, api, source in ((users[0], alice, ADD), (users[1], bob, ADD.replace("sum", "total"))):
            assert (await api.post("/compile", {"source": source, "name": "p"}))["storedAs"] == f"user:{user}/p"
        assert (await alice.post("/execute", {"ref": "p", "inputs": {"a": 1, "b": 2}}))["outputs"] == {"sum": 3}
        await bob.get(f"/pipelines/user%3A{users[0]}%2Fp", 404)
        ended = (await alice.post("/run", {"source": ADD, "inputs": {"a": 1, "b": 2}}))["executionId"]
        await bob.get(f"/executions/{ended}", 404)
        assert (await bob.get("/history"))["executions"] == []


async def _same(api: Api, method: str, path: str, body: JsonObject | None, there: str, absent: str) -> None:
    """What is there is answered byte for byte as what is not, but for its name."""
    answers = list[tuple[int, bytes]]()
    for each in (there, absent):
        given = None if body is None else _filled(body, each)
        found = await api.http.request(method, path.replace("{}", each), json=given)
        plain = each.replace("%3A", ":").replace("%2F", "/")
        answers.append((found.status_code, found.content.replace(plain.encode(), b"-")))
    assert answers[0] == answers[1], path
    assert answers[0][0] == 404, answers[0]


def _filled(body: JsonObject, given: str) -> JsonObject:
    return {name: given if value == "{}" else value for name, value in body.items()}
