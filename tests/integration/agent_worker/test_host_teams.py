"""The catalogue follows the team folders of the workers: agents are published, changed, kept and retired."""

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from nats.aio.msg import Msg
from tests.conftest import Connecting
from tests.embedded import NatsServer
from tests.integration.agent_worker.lab import Lab
from tests.integration.real_parts import OWNED, a_lab, a_worker
from tests.requirements import requirement
from tests.waiting import Collected, eventually

from agent_worker.teams import SharedRuntime
from pallas_bus.ask import ask
from pallas_bus.connection import Bus
from pallas_bus.errors import RETRYING
from pallas_bus.kv import Table, watch
from pallas_bus.streams import declare
from pallas_contracts.agents import AgentDefinition, AgentRead, Trouble, WorkerPresence
from pallas_contracts.bounds import LONGEST_LINE
from pallas_contracts.catalog import AGENTS, GATEWAY, READ_AGENT, TURN_QUEUE, WORKERS
from pallas_contracts.errors import NotFound, PallasError, Rejected, Unavailable
from pallas_hosting import folders as host_teams
from pallas_hosting.metered import Watching
from pallas_teams import FolderChanges, load_each
from pallas_turns import settle as settle_turn
from pallas_turns.definitions import publish_definitions
from pallas_turns.feeds import follow_turns
from pallas_turns.queue import consumer_name

ANOTHER = "  spare:\n    kind: function\n    module: bench.py\n"
_REFUSALS = 2
SLOW = """
import time
from pathlib import Path
from agent_worker.functions import FunctionAgent

agent = FunctionAgent()
Path("{begun}").touch()
until = time.monotonic() + 10
while not Path("{go_on}").exists() and time.monotonic() < until:
    time.sleep(0.01)
Path("{ended}").touch()
"""


@dataclass
class Runtimes:
    """The runtimes that workers have made and closed, by `id`. `refuses` is the error of publishing."""

    made: list[int] = field(default_factory=list[int])
    closed: list[int] = field(default_factory=list[int])
    refused: int = 0
    refuses: PallasError | None = None


@pytest.fixture
def runtimes(monkeypatch: pytest.MonkeyPatch) -> Runtimes:
    """The runtimes made and closed during the test."""
    seen, make, close, publish = Runtimes(), SharedRuntime.__init__, SharedRuntime.close, publish_definitions

    def made(self: SharedRuntime, watching: Watching) -> None:
        make(self, watching)
        seen.made.append(id(self))

    async def closed(self: SharedRuntime) -> None:
        seen.closed.append(id(self))
        await close(self)

    async def published(*given: Any, **named: Any) -> None:
        if seen.refuses is not None:
            raise seen.refuses
        try:
            await publish(*given, **named)
        except Unavailable:
            seen.refused += 1
            raise

    monkeypatch.setattr(SharedRuntime, "__init__", made)
    monkeypatch.setattr(SharedRuntime, "close", closed)
    monkeypatch.setattr(host_teams, "publish_definitions", published)
    return seen


class Hosting(Lab):
    """A lab with a view of the catalogue."""

    agents: Table[AgentDefinition]
    workers: Table[WorkerPresence]

    def published(self) -> dict[str, AgentDefinition]:
        """The team's agents by name."""
        return {known.agent: known for known in self.agents.values() if known.team == self.team}

    async def until_published(self, *names: str) -> dict[str, AgentDefinition]:
        """Wait until exactly these agents are published."""
        await eventually(lambda: set(self.published()) == set(names))
        return self.published()

    def edit(self, before: str, after: str, file: str = "agents.yaml") -> None:
        """Change a file of the folder."""
        text = (self.folder / file).read_text("utf-8")
        assert before in text
        (self.folder / file).write_text(text.replace(before, after), "utf-8")


@asynccontextmanager
async def a_hosting(gateway: Bus, team: str, folder: Path) -> AsyncGenerator[Hosting]:
    """A lab without a worker yet."""
    await declare(gateway, *OWNED)
    async with (
        AsyncExitStack() as stack,
        watch(gateway, AGENTS) as agents,
        watch(gateway, WORKERS) as workers,
        follow_turns(gateway) as feeds,
    ):
        lab = Hosting(gateway, feeds, team, folder / "team", stack)
        lab.agents, lab.workers = agents, workers
        yield lab


@pytest.fixture
async def lab(bus: Connecting, team: str, tmp_path: Path) -> AsyncGenerator[Hosting]:
    """A lab on the module's broker."""
    async with a_hosting(await bus(GATEWAY), team, tmp_path) as lab:
        yield lab


async def test_the_agents_of_a_folder_are_published_as_described_there(lab: Hosting) -> None:
    await lab.worker()
    published = await lab.until_published("bench", "once", "sure")
    bench = published["bench"]
    assert (bench.title, bench.version, bench.namespace, bench.kind) == ("Bench", "1.0.0", "local.lab", "function")
    assert [tool.name for tool in bench.tools] == [
        "say",
        "wait",
        "think",
        "count",
        "recite",
        "effect",
        "late_effect",
        "ask",
        "crash",
        "give_up",
        "stay",
    ]
    assert [prompt.name for prompt in bench.prompts] == ["greeting"]
    assert (published["once"].limits.max_concurrency, published["sure"].retry) == (1, "safe")
    assert bench.revision


async def test_a_second_worker_with_the_same_folder_changes_nothing(lab: Hosting) -> None:
    await lab.worker()
    before = await lab.until_published("bench", "once", "sure")
    changed_keys: list[str] = []
    lab.agents.on_change(lambda key, _definition: changed_keys.append(key) if key.startswith(f"{lab.team}.") else None)
    changed_keys.clear()
    second = await lab.worker()
    await eventually(lambda: second.decoding.turns.worker in lab.workers)
    assert lab.published() == before
    assert changed_keys == []


async def test_a_worker_publishes_its_presence_and_its_agents_until_it_ends(lab: Hosting) -> None:
    folder = lab.describe()
    async with a_worker(lab.bus_url, folder, slots=5) as worker:
        await eventually(lambda: worker.decoding.turns.worker in lab.workers)
        presence = lab.workers.get(worker.decoding.turns.worker)
        assert presence is not None
        assert (presence.slots, presence.agents) == (
            5,
            tuple(f"{lab.team}.{name}" for name in ("bench", "once", "sure")),
        )
    await eventually(lambda: worker.decoding.turns.worker not in lab.workers)
    assert set(lab.published()) == {"bench", "once", "sure"}, "agents stay when no worker is alive"


async def test_a_worker_reports_what_its_agents_lack_as_long_as_they_lack_it(
    lab: Hosting, monkeypatch: pytest.MonkeyPatch
) -> None:
    lacks = {"bench": "odd does not list its tools (since 10:00:00 UTC)"}

    def lacking(_shared: SharedRuntime) -> dict[str, str]:
        return dict(lacks)

    monkeypatch.setattr(SharedRuntime, "lacks", lacking)
    worker = await lab.worker()

    def reported() -> dict[str, Trouble]:
        presence = lab.workers.get(worker.decoding.turns.worker)
        return dict(presence.troubles) if presence is not None else {}

    trouble = Trouble(status="degraded", reason=lacks["bench"])
    await eventually(lambda: reported() == {f"{lab.team}.bench": trouble})
    lacks.clear()
    await eventually(lambda: reported() == {})


@requirement("P-3.16")
async def test_an_agent_that_fails_to_start_is_listed_and_reported_and_the_others_work(lab: Hosting) -> None:
    lab.describe(lambda text: text + "  bad:\n    kind: function\n    module: bad.py\n")
    (lab.folder / "bad.py").write_text("raise RuntimeError('a secret')\n", "utf-8")
    worker = await lab.worker()
    await lab.until_published("bad", "bench", "once", "sure")
    await eventually(lambda: worker.decoding.turns.worker in lab.workers)
    presence = lab.workers.get(worker.decoding.turns.worker)
    assert presence is not None
    assert list(presence.failed) == [f"{lab.team}.bad"]
    assert "secret" not in presence.failed[f"{lab.team}.bad"]
    assert (await (await lab.ask("say")).outcome()).status == "completed"


async def test_a_reason_for_a_failed_agent_that_is_too_long_is_published_in_part(lab: Hosting) -> None:
    lab.describe(lambda text: text + "  bad:\n    kind: function\n    module: bad.py\n")
    (lab.folder / "bad.py").write_text(
        f"from pallas_contracts.errors import Rejected\nraise Rejected('x' * {2 * LONGEST_LINE})\n", "utf-8"
    )
    worker = await lab.worker()
    await eventually(lambda: worker.decoding.turns.worker in lab.workers)
    presence = lab.workers.get(worker.decoding.turns.worker)
    assert presence is not None
    assert presence.failed == {f"{lab.team}.bad": "x" * LONGEST_LINE}
    assert (await (await lab.ask("say")).outcome()).status == "completed"


async def test_an_agent_added_to_the_folder_is_published_and_executes_turns(lab: Hosting) -> None:
    await lab.worker()
    lab.edit("  sure:\n", ANOTHER + "  sure:\n")
    await lab.until_published("bench", "once", "spare", "sure")
    assert (await (await lab.ask("say", "spare")).outcome()).status == "completed"


async def test_heartbeats_and_turns_go_on_while_a_module_is_imported(
    lab: Hosting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settle_turn, "IN_PROGRESS_SECONDS", 0.05)
    await lab.worker()
    file, beats = lab.file(), Collected[bytes]()
    turn = await lab.ask("wait", file=file)
    await turn.until_waiting()

    async def on_heartbeat(message: Msg) -> None:
        if message.data == b"+WPI":
            beats.add(message.data)

    begun, go_on, ended = (lab.folder.parent / name for name in ("begun", "go_on", "ended"))
    (lab.folder / "slow.py").write_text(SLOW.format(begun=begun, go_on=go_on, ended=ended), "utf-8")
    lab.edit("  sure:\n", "  slow:\n    kind: function\n    module: slow.py\n  sure:\n")
    await eventually(begun.exists)
    await lab.bus.subscribe(f"$JS.ACK.{TURN_QUEUE.name}.{consumer_name(lab.team, 'bench')}.>", on_heartbeat)
    await beats.count(2)
    assert (await (await lab.ask("say")).outcome()).status == "completed"
    assert not ended.exists()
    go_on.touch()
    await lab.until_published("bench", "once", "slow", "sure")
    file.touch()
    assert (await turn.outcome()).status == "completed"


async def test_an_agent_removed_from_the_folder_is_retired_and_its_running_turns_go_on(lab: Hosting) -> None:
    await lab.worker()
    file = lab.file()
    turn = await lab.ask("wait", "once", file=file)
    await turn.until_waiting()
    lab.edit("  once:\n    kind: function\n    module: bench.py\n    title: Once\n", "")
    lab.edit("    description: Runs one turn at a time, over all workers\n    max_concurrency: 1\n", "")
    await lab.until_published("bench", "sure")
    file.touch()
    assert (await turn.outcome()).status == "completed"


async def test_later_turns_run_changed_code_while_running_ones_keep_theirs(lab: Hosting) -> None:
    await lab.worker()
    before = (await lab.until_published("bench", "once", "sure"))["bench"]
    file = lab.file()
    earlier = await lab.ask("wait", file=file)
    await earlier.until_waiting()
    lab.edit("{arguments.get('text', 'nothing')} (", "twice {arguments.get('text', 'nothing')} (", "bench.py")
    lab.edit('"Say a text"', '"Say a text twice"', "bench.py")
    await eventually(lambda: lab.published()["bench"].tools[0].description == "Say a text twice")
    after = lab.published()["bench"]
    assert after.revision != before.revision
    assert after.updated_at > before.updated_at
    later = await lab.ask("say", text="hello")
    await later.outcome()
    assert later.text == "twice hello (attempt 1)"
    file.touch()
    assert (await earlier.outcome()).status == "completed"


async def test_an_invalid_folder_changes_nothing_and_is_hosted_again_once_valid(
    lab: Hosting, caplog: pytest.LogCaptureFixture
) -> None:
    await lab.worker()
    before = await lab.until_published("bench", "once", "sure")
    lab.edit("title: Sure", "colour: red")
    await eventually(lambda: "the changed folder is not accepted" in caplog.messages)
    assert lab.published() == before
    assert (await (await lab.ask("say", "sure")).outcome()).status == "completed"
    lab.edit("colour: red", "title: Surely")
    await eventually(lambda: lab.published()["sure"].title == "Surely")


async def test_a_change_reverted_while_it_was_loaded_is_hosted_when_made_again(
    lab: Hosting, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    await lab.worker()
    await lab.until_published("bench", "once", "sure")
    read, reading = list[Path](), FolderChanges.reading

    @contextmanager
    def told(changes: FolderChanges, folder: Path) -> Generator[None]:
        with reading(changes, folder):
            yield
        read.append(folder)

    def load_reverted_folder(*given: Any, **named: Any) -> Any:
        monkeypatch.setattr(host_teams, "load_each", load_each)
        lab.edit("title: Surely", "title: Sure")
        return load_each(*given, **named)

    monkeypatch.setattr(FolderChanges, "reading", told)
    monkeypatch.setattr(host_teams, "load_each", load_reverted_folder)
    lab.edit("title: Sure", "title: Surely")
    await eventually(lambda: bool(read))
    assert caplog.messages.count("team hosted") == 1 + 1
    lab.edit("title: Sure", "title: Surely")
    await eventually(lambda: lab.published()["sure"].title == "Surely")


async def test_a_folder_refused_for_the_fault_of_another_is_hosted_once_that_is_fixed(
    lab: Hosting, caplog: pytest.LogCaptureFixture
) -> None:
    other = Hosting(lab.bus, lab.feeds, f"{lab.team}-other", lab.folder.parent / "other", lab.stack)
    async with a_worker(
        lab.bus_url, lab.describe(), other.describe(lambda text: text.replace("local.lab", "local.other"))
    ):
        await lab.until_published("bench", "once", "sure")
        other.edit("title: Sure", "colour: red")
        await eventually(lambda: caplog.messages.count("the changed folder is not accepted") == 1)
        lab.edit("title: Sure", "title: Surely")
        await eventually(lambda: caplog.messages.count("the changed folder is not accepted") > 1)
        other.edit("colour: red", "title: Sure")
        await eventually(lambda: lab.published()["sure"].title == "Surely")


async def test_a_change_made_while_the_broker_is_away_is_hosted_when_it_is_back(
    nats_server: NatsServer,
    bus: Connecting,
    team: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    runtimes: Runtimes,
) -> None:
    async with a_hosting(await bus(GATEWAY, url=nats_server.url), team, tmp_path) as lab:
        (await lab.worker()).bus.timeout = 1.0
        await lab.until_published("bench", "once", "sure")
        nats_server.stop()
        lab.edit("title: Sure", "title: Surely")
        await eventually(lambda: RETRYING in caplog.messages, 20)
        await eventually(lambda: runtimes.refused >= _REFUSALS, 20)
        nats_server.start()
        await eventually(lambda: lab.published()["sure"].title == "Surely", 20)
    assert len(runtimes.made) == 1 + 1, "the folder as it was, and as it is"
    assert set(runtimes.closed) == set(runtimes.made)


async def test_a_worker_that_starts_while_the_broker_is_slow_publishes_its_team_later(
    lab: Hosting, runtimes: Runtimes, caplog: pytest.LogCaptureFixture
) -> None:
    runtimes.refuses = Unavailable("reading KV_agents took longer than 5.0 s")
    starting = asyncio.ensure_future(lab.worker())
    await eventually(lambda: RETRYING in caplog.messages)
    assert not starting.done()
    runtimes.refuses = None
    await starting
    await lab.until_published("bench", "once", "sure")
    assert len(runtimes.made) == 1


async def test_a_change_that_cannot_be_published_is_undone_and_the_old_agents_go_on(
    nats_server: NatsServer,
    bus: Connecting,
    team: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    runtimes: Runtimes,
) -> None:
    async with a_hosting(await bus(GATEWAY, url=nats_server.url), team, tmp_path) as lab:
        await lab.worker()
        before = await lab.until_published("bench", "once", "sure")
        runtimes.refuses = Rejected("no more agents")
        lab.edit("title: Sure", "title: Surely")
        await eventually(lambda: "the changed folder is not accepted" in caplog.messages)
        assert lab.published() == before
        assert (await (await lab.ask("say", "sure")).outcome()).status == "completed"
    assert len(runtimes.made) == 1 + 1
    assert set(runtimes.closed) == set(runtimes.made)


async def test_an_older_version_never_replaces_a_newer_one(lab: Hosting, caplog: pytest.LogCaptureFixture) -> None:
    lab.describe(lambda text: text.replace("version: 1.0.0", "version: 1.10.0") + ANOTHER)
    await lab.worker()
    newer = await lab.until_published("bench", "once", "spare", "sure")
    old = a_lab(lab.folder.parent / "old", lab.team, lambda text: text.replace("version: 1.0.0", "version: 1.9.0"))
    async with a_worker(lab.bus_url, old) as behind:
        await eventually(lambda: behind.decoding.turns.worker in lab.workers)
        assert lab.published() == newer
    assert caplog.messages.count("agent not published: a newer version is") == 3
    assert caplog.messages.count("agent kept: it belongs to a newer version") == 1


async def test_a_newer_version_replaces_all_agents_and_retires_missing_ones(lab: Hosting) -> None:
    lab.describe(lambda text: text + ANOTHER)
    await lab.worker()
    await lab.until_published("bench", "once", "spare", "sure")
    new = a_lab(lab.folder.parent / "new", lab.team, lambda text: text.replace("version: 1.0.0", "version: 1.1.0"))
    async with a_worker(lab.bus_url, new) as ahead:
        await eventually(lambda: ahead.decoding.turns.worker in lab.workers)
        published = await lab.until_published("bench", "once", "sure")
        assert {known.version for known in published.values()} == {"1.1.0"}


async def test_a_worker_that_hosts_the_agent_renders_its_prompt(lab: Hosting) -> None:
    worker = await lab.worker()
    await worker.decoding.turns.bus.client.flush()

    async def read(name: str, agent: str = "bench") -> object:
        question = AgentRead(
            team=lab.team, agent=agent, method="prompts/get", params={"name": name, "arguments": {"name": "Ada"}}
        )
        return (await ask(lab.bus, READ_AGENT, question, team=lab.team, agent=agent)).result

    assert await read("greeting") == {
        "description": "A greeting",
        "messages": [{"role": "user", "content": {"type": "text", "text": "Greet Ada"}}],
    }
    with pytest.raises(NotFound):
        await read("nope")
    with pytest.raises(NotFound):
        await read("greeting", "nobody")


async def test_a_prompt_that_no_worker_hosts_is_refused_at_once(lab: Hosting) -> None:
    question = AgentRead(team=lab.team, agent="bench", method="prompts/get", params={"name": "greeting"})
    with pytest.raises(Unavailable) as refused:
        await ask(lab.bus, READ_AGENT, question, team=lab.team, agent="bench")
    assert refused.value.code == "no_responders", "and not when the time is over"


async def test_a_bad_folder_keeps_no_other_team_from_starting_or_changing(lab: Hosting, tmp_path: Path) -> None:
    lab.describe()
    bad = tmp_path / "bad"
    bad.mkdir()
    (bad / "agents.yaml").write_text("name: bad\nagents: {a: {}}\nx: " + "[" * 5000, "utf-8")
    await lab.stack.enter_async_context(a_worker(lab.bus_url, bad, lab.folder))
    await lab.until_published("bench", "once", "sure")
    lab.edit("title: Sure", "title: Surely")
    await eventually(lambda: lab.published()["sure"].title == "Surely")

    mended = f"name: {lab.team}-bad\nnamespace: org.bad\nagents: {{a: {{instruction: x, model: offline}}}}\n"
    (bad / "agents.yaml").write_text(mended, "utf-8")
    await eventually(lambda: any(known.team == f"{lab.team}-bad" for known in lab.agents.values()))
