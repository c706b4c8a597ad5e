"""A backup of a running installation, a disaster, and a restore after which no old turn is executed again."""

import shutil
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from unittest.mock import Mock

import pytest
from pyrage import x25519
from tests.builders import agent_definition, turn_requested
from tests.conftest import Connecting
from tests.contract.tree import ROOT
from tests.integration.broker.guarded import ALPHA, Guarded, start, worker
from tests.integration.pallas_command import Pallas
from tests.integration.real_parts import a_process, a_worker, measured, until
from tests.postgres import PostgresServer
from tests.requirements import requirement

from pallas_bus import kv
from pallas_bus.connection import Bus, connect
from pallas_bus.streams import declare, stream_name
from pallas_cli.backup import create
from pallas_cli.backup.keys import KEYS
from pallas_cli.backup.store import Kind, open_store
from pallas_cli.stack.data import locked
from pallas_contracts.agents import Limits
from pallas_contracts.backups import Hold
from pallas_contracts.catalog import (
    AGENTS,
    BUCKETS,
    DATABASES,
    GATEWAY,
    HOLDS,
    MONITOR,
    RESTORE_HOLD,
    SPENDING,
    STREAMS,
    TURN_LOG,
    TURN_OBJECTS,
    TURN_QUEUE,
    WORKERS,
)
from pallas_contracts.costs import Spending
from pallas_contracts.message import utc_now
from pallas_contracts.turns import Claimed, ToolStarted, TurnRequested
from pallas_turns.claims import TurnRef, claim, stored_outcome
from pallas_turns.queue import submit
from pallas_turns.write import TurnWriter

IMPORTANT = "a very important row"
DRILL = (
    (ROOT / "docs/backup.md").read_text("utf-8").partition("## The drill")[2].partition("```sh")[2].partition("```")[0]
)


def documented(command: str, **values: str) -> list[str]:
    """The words of a command as the drill in docs/backup.md has it, with values for its capital letters."""
    [line] = [line for line in DRILL.splitlines() if line.startswith(f"pallas {command}")][:1]
    return [values.get(word, word) for word in line.split()[1:]]


@dataclass
class Site:
    """An installation that can be lost: a broker with users, three databases, the keys, and a store of backups."""

    root: Path
    guarded: Guarded
    postgres: PostgresServer
    urls: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def data(self) -> Path:
        """The folder with the secrets, as in the data folder of a stack."""
        return self.root / "data"

    @property
    def store(self) -> str:
        """The folder of backups."""
        return str(self.root / "backups")

    def pallas(self, user: str) -> Pallas:
        """The command, as this user of the broker."""
        names = {
            name: f"PALLAS_{service.replace('-', '_').upper()}_POSTGRES_URL" for service, name in DATABASES.items()
        }
        variables = {names[name]: url for name, url in self.urls.items()}
        own = {
            "PALLAS_NATS_URL": self.guarded.server.url,
            "PALLAS_NATS_SEED": self.guarded.seed(user),
        }
        return Pallas({**variables, **own}, self.root)

    async def new_databases(self) -> None:
        """Give every service an empty database."""
        for name in DATABASES.values():
            self.urls[name] = await self.postgres.new_database()

    def lose_the_broker(self) -> None:
        """Lose the broker's store; the secrets are elsewhere."""
        self.guarded.server.kill9()
        shutil.rmtree(self.guarded.server.folder / "store")
        self.guarded.server.start()

    def connect(self, user: str) -> AbstractAsyncContextManager[Bus]:
        """Connect as this user."""
        return connect(self.guarded.access(user), user)

    async def declare(self) -> None:
        """Declare what every service declares at its start."""
        things = (*STREAMS, *BUCKETS)
        for owner in sorted({thing.owner for thing in things}):
            async with self.connect(owner) as bus:
                await declare(bus, *(thing for thing in things if thing.owner == owner))


@pytest.fixture
async def site(tmp_path: Path, postgres: PostgresServer) -> AsyncGenerator[Site]:
    """The installation."""
    site = Site(tmp_path, start(tmp_path / "site"), postgres)
    (site.data / "secrets").mkdir(parents=True)
    for name in KEYS:
        (site.data / "secrets" / name).write_text(f"the {name}")
    await site.new_databases()
    yield site
    site.guarded.server.close()


async def key_of(site: Site) -> tuple[str, str]:
    """A new key for backups: the file of the identity, and the public key."""
    identity = site.root / "identity"
    made = await site.pallas("backup").done(*documented("backup key", IDENTITY=str(identity)))
    return str(identity), made.out.strip()


def effects(file: Path) -> int:
    """How often the effect happened."""
    path = file.with_suffix(".effects")
    return len(path.read_text().splitlines()) if path.exists() else 0


async def ended(bus: Bus, request: TurnRequested) -> None:
    """Wait until the turn has an outcome."""

    async def over() -> bool:
        return await stored_outcome(bus, TurnRef.of(request)) is not None

    await until(over)


@requirement("K-ops-1", "K-ops-2")
async def test_after_a_restore_an_effect_has_happened_once_whatever_was_decided_but_run(site: Site) -> None:
    identity, public = await key_of(site)
    await site.declare()
    async with site.connect(MONITOR) as monitor:
        spent = Spending(day="20261125", team=ALPHA, caller="peer:1", calls=1, position=1, log="the log that is lost")
        await kv.put(monitor, SPENDING, spent, day=spent.day, team=ALPHA, caller="peer")
    await site.postgres.say(f"create table facts as select '{IMPORTANT}' as fact", site.urls["workspaces"])
    files = {name: site.root / name for name in ("running", "waiting", "wanted")}
    asked = {
        name: turn_requested(ALPHA, "once", tool="late_effect", arguments={"file": str(file)})
        for name, file in files.items()
    }
    seed, folder = site.guarded.seed(worker(ALPHA)), site.guarded.teams[ALPHA]
    async with site.connect(GATEWAY) as gateway:
        async with a_worker(site.guarded.server.url, folder, nats_seed=seed):
            for request in asked.values():
                await submit(gateway, request)
            await until(lambda: _are_running(site, asked["running"]))
            create = documented("backup create", STORE=site.store, PUBLIC=public)
            made = await site.pallas("backup").done(*create, "--data", str(site.data), "--json")
            assert made.json["databases"] == 3
            for name in ("running", "waiting"):
                files[name].touch()
                await ended(gateway, asked[name])
        assert [effects(files[name]) for name in asked] == [1, 1, 0]

    site.lose_the_broker()
    await site.new_databases()
    restoring, known = site.pallas("restore"), {"STORE": site.store, "IDENTITY": identity}
    assert made.json["backup"] in (await restoring.done(*documented("backup list", **known))).out
    checked = (await restoring.done(*documented("backup verify", **known), "--data", str(site.data), "--json")).json
    assert (checked["opened"], checked["keys"], checked["vouched_by"]) == (True, [], [*KEYS])
    words = (*documented("backup restore", **known), "--nats", site.guarded.server.url)
    [missing, *_] = await restoring.refused(*words, "--data", str(site.root / "nowhere"))
    await restoring.done(*words, "--data", str(site.data))
    assert "is missing" in missing
    assert await site.postgres.say("select fact from facts", site.urls["workspaces"]) == [(IMPORTANT,)]
    [*told, refused] = await restoring.refused(*words, "--data", str(site.data))
    assert any("--data names a stack that is stopped" in line for line in told)
    assert refused.endswith("the installation is not empty: pass --replace and --yes to lose it")

    await site.declare()
    async with site.connect(MONITOR) as monitor:  # its calls would count again with the restored log
        assert await kv.get_entries(monitor, SPENDING) == {}
    files["wanted"].touch()
    process = a_process("agent-worker")
    async with (
        site.connect(GATEWAY) as gateway,
        a_worker(site.guarded.server.url, folder, nats_seed=seed, process=process),
    ):
        present = await _presence(gateway)
        assert present.startswith("held after the restore of the backup")
        assert measured(process, "pallas_turns_held") == 1
        assert "turns" in process.probes.noted()
        operator = site.pallas("cli")
        listed = (await operator.done(*documented("turns reconcile"), "--json")).json
        assert {row["turn"]: row["state"] for row in listed["turns"]} == {
            asked["running"].turn_id: "running",
            asked["waiting"].turn_id: "waiting",
            asked["wanted"].turn_id: "waiting",
        }
        [*left] = await operator.refused(*documented("turns reconcile --release"))
        assert len(left) == 3
        for name, word in (("running", "done"), ("waiting", "cancel"), ("wanted", "run")):
            await operator.done(*documented("turns reconcile TURN", TURN=asked[name].turn_id, done=word), "--yes")
        assert effects(files["wanted"]) == 0
        await operator.done(*documented("turns reconcile --release"))
        await ended(gateway, asked["wanted"])
        outcomes = {name: await stored_outcome(gateway, TurnRef.of(request)) for name, request in asked.items()}
    assert {name: outcome.status for name, outcome in outcomes.items() if outcome} == {
        "running": "completed",
        "waiting": "cancelled",
        "wanted": "completed",
    }
    assert [effects(files[name]) for name in asked] == [1, 1, 1]
    told = (await site.pallas("cli").done("turns", "show", asked["running"].turn_id)).out
    assert "decided after a restore: done" in told


async def test_a_turn_that_only_the_log_has_shows_what_it_had_begun_and_can_be_ended_but_not_run(
    nats_url: str, bus: Connecting, team: str, tmp_path: Path
) -> None:
    gateway, operator = await bus(GATEWAY), Pallas({"PALLAS_NATS_URL": nats_url}, tmp_path)
    await declare(gateway, TURN_QUEUE, TURN_LOG, TURN_OBJECTS, HOLDS, AGENTS)
    request = turn_requested(team, "cashier", tool="charge")
    keeping = agent_definition(team, "cashier", limits=Limits(keep={"completed": 7200.0}))
    await kv.put(gateway, AGENTS, keeping, team=team, agent="cashier")
    ref, claimed = TurnRef.of(request), Claimed(attempt=1, worker="lost", tool="charge", at=utc_now())
    writer = TurnWriter(gateway, ref, 1, await claim(gateway, ref, claimed, after=0))
    await writer.tool_starting(ToolStarted(call="1", server="till", tool="charge"))
    await writer.hand_back()
    hold = Hold(backup="20261124t054100z-ab12", taken_at=utc_now(), restored_at=utc_now(), restored_by="somebody")
    await kv.put(gateway, HOLDS, hold, hold=RESTORE_HOLD)
    of_turn = ("turns", "reconcile", request.turn_id, "--yes", "--decide")
    [unfinished] = await operator.refused(*of_turn, "done")
    assert "has not finished: repeat it first" in unfinished
    await kv.put(gateway, HOLDS, hold.model_copy(update={"complete": True}), hold=RESTORE_HOLD)
    [row] = (await operator.done("turns", "reconcile", "--json")).json["turns"]
    assert row["begun"] == [{"tool": "till/charge", "safe": False, "answered": False}]
    assert (row["open"], row["can_run"]) == (True, False)
    [no_request] = await operator.refused(*of_turn, "run")
    assert "its request is not in the queue" in no_request
    [unknown] = await operator.refused("turns", "reconcile", "nobody", "--decide", "cancel")
    assert "is not one of the backup" in unknown
    later = turn_requested(team, "cashier", tool="charge")
    await submit(gateway, later)
    await operator.done("turns", "reconcile", "--all", "--decide", "done", "--by", "alice")
    outcome = await stored_outcome(gateway, ref)
    assert outcome is not None
    assert (outcome.status, outcome.attempt, outcome.events) == ("completed", 2, 1)
    assert outcome.content_until == outcome.ended_at + timedelta(hours=2)
    assert await stored_outcome(gateway, TurnRef.of(later)) is None
    await operator.done("turns", "reconcile", "--release", "--by", "alice")
    [again] = await operator.refused("turns", "reconcile", "--release")
    assert "no restore holds turns" in again
    assert "by alice" in (await operator.done("turns", "reconcile")).out


async def _are_running(site: Site, *requests: TurnRequested) -> bool:
    listed = await site.pallas("cli").done("turns", "list", "--state", "running", "--json")
    return {row["turn"] for row in listed.json} == {request.turn_id for request in requests}


async def _presence(bus: Bus, count: int = 1) -> str:
    """Wait for the presences of so many workers. Returns why the first of them is held."""
    held = list[str | None]()

    async def there() -> bool:
        held[:] = [presence.held for presence in (await kv.snapshot(bus, WORKERS)).values()]
        return len(held) == count

    await until(there)
    assert held[0] is not None
    return held[0]


async def test_what_was_spent_is_left_out_of_a_backup_of_an_earlier_release(
    nats_url: str, bus: Connecting, team: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway, monitor = await bus(GATEWAY), await bus(MONITOR)
    await declare(gateway, TURN_QUEUE, SPENDING)
    spent = Spending(day="20261125", team=team, caller="peer:1", calls=1, position=1, log="the log that is lost")
    await kv.put(monitor, SPENDING, spent, day=spent.day, team=team, caller="peer")
    parts: list[tuple[Kind, str]] = [("stream", stream_name(thing)) for thing in (TURN_QUEUE, SPENDING)]
    monkeypatch.setattr(create, "parts_in_order", Mock(return_value=parts))
    identity, store = x25519.Identity.generate(), str(tmp_path / "store")
    (tmp_path / "identity").write_text(str(identity))
    old = create.Creating(gateway, {}, open_store(store, make=True), [identity.to_public()], None, print)
    assert len((await old.create()).parts) == 2
    pallas = Pallas({"PALLAS_BACKUP_STORE": store, "PALLAS_NATS_URL": ""}, tmp_path)
    words = ("backup", "restore", "latest", "--identity", "identity", "--data", "data", "--ignore-keys")
    told = (await pallas.done(*words)).err
    assert "restored stream TURN_QUEUE" in told
    assert f"restored stream {stream_name(SPENDING)}" not in told


async def test_a_backup_goes_into_the_data_folder_of_a_stack_that_is_stopped_and_not_over_what_it_has(
    nats_url: str, bus: Connecting, team: str, tmp_path: Path
) -> None:
    gateway, data = await bus(GATEWAY), tmp_path / "data"
    await declare(gateway, TURN_QUEUE, TURN_LOG)
    await submit(gateway, turn_requested(team))
    pallas = Pallas({"PALLAS_BACKUP_STORE": str(tmp_path / "store"), "PALLAS_NATS_URL": ""}, tmp_path)
    public = (await pallas.done("backup", "key", "--out", "identity")).out.strip()
    await pallas.done("backup", "create", "--recipient", public, "--no-databases", "--nats", nats_url)
    words = ("backup", "restore", "latest", "--identity", "identity", "--data", str(data))
    [unvouched, _] = await pallas.refused(*words)
    assert "No key shows that the manifest is unchanged" in unvouched
    words += ("--ignore-keys",)
    restored = await pallas.done(*words, "--json")
    assert (restored.json["databases"], restored.json["replaced"]) == (0, [])
    [*found, refused] = await pallas.refused(*words)
    assert any(line.startswith("pallas: stream TURN_QUEUE with ") for line in found)
    assert "pass --replace and --yes" in refused
    with locked(data):
        [in_use] = (await pallas.refused(*words, "--replace", "--yes"))[-1:]
    assert "is in use by another instance" in in_use
    replaced = await pallas.done(*words, "--replace", "--yes", "--json")
    assert replaced.json["replaced"] == [line.removeprefix("pallas: ") for line in found if "stream" in line]
