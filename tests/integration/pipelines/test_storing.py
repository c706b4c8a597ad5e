"""Stored pipelines at a real broker: whose they are, versions, hashes, what is published, and what is forgotten."""

import asyncio
import uuid
from collections.abc import AsyncGenerator
from datetime import timedelta
from typing import Any

import pytest
from tests.builders import agent_definition
from tests.conftest import Connecting
from tests.integration.real_parts import a_process, until
from tests.requirements import requirement
from tests.unit.pipelines.stored import an_image

from pallas_bus import kv
from pallas_bus.streams import declare
from pallas_contracts.agents import ToolDefinition
from pallas_contracts.catalog import (
    AGENTS,
    BUCKETS,
    GATEWAY,
    PIPELINE_IMAGES,
    PIPELINE_NAMES,
    PIPELINE_NAMESPACES,
    PIPELINES,
    PIPELINES_TEAM,
    PUBLISHED,
)
from pallas_contracts.errors import Conflict, Denied, NotFound, Rejected
from pallas_contracts.message import utc_now
from pallas_contracts.pipelines import MOST_VERSIONS, UsedModule
from pallas_contracts.turns import Principal
from pipelines.modules.catalogue import Catalogue
from pipelines.programs import Compiler
from pipelines.storing import drift, entries, pipelines
from pipelines.storing.drift import Drift
from pipelines.storing.namespaces import Caller, digest_of
from pipelines.storing.pipelines import StoredPipelines, open_pipelines
from pipelines.storing.scopes import Scope

ONE, TWO, THREE = (an_image(f"in x: Int\n# {number}\ny = x\nout y{number}\n") for number in (1, 2, 3))


@pytest.fixture
async def store(bus: Connecting) -> AsyncGenerator[StoredPipelines]:
    """The stored pipelines of the run's broker."""
    await declare(await bus(GATEWAY), AGENTS)
    connection = await bus(PIPELINES)
    await declare(connection, *(bucket for bucket in BUCKETS if bucket.owner == PIPELINES))
    async with open_pipelines(connection) as opened:
        yield opened


def somebody(scope: Scope = Scope.WRITE, **fields: Any) -> Caller:
    """A caller that no other test knows."""
    return Caller(Principal.model_validate({"type": "user", "id": f"u{uuid.uuid4().hex}", **fields}), None, scope)


@requirement("C-ns-1")
async def test_a_pipeline_belongs_to_its_owner_and_does_not_exist_for_others(store: StoredPipelines) -> None:
    alice, bob, admin = somebody(), somebody(), somebody(Scope.ADMIN)
    stored = await store.store(alice, ONE, "sums")
    name = f"user:{alice.principal.id}/sums"
    assert (stored.pipeline.name, stored.new, stored.version.version) == (name, True, 1)
    refs = ("sums", name, name.replace("/", "%2F"), f"sha256:{ONE.structural_hash}")
    for ref in refs:
        found = await store.get(alice, ref)
        assert (found.image.source, found.image.inputs) == (ONE.source, {"x": "Int"})
    for ref in (*refs, "never", ONE.structural_hash, "not a name"):
        for caller in (bob, alice) if ref not in refs else (bob,):
            with pytest.raises(NotFound, match="not found") as unknown:
                await store.get(caller, ref)
            assert unknown.value.message == f"Pipeline {ref!r} not found"
    for change in (
        store.delete(bob, name),
        store.rollback(bob, name),
        store.publish(bob, name, "sums"),
        store.unpublish(bob, name),
    ):
        with pytest.raises(NotFound, match="not found"):
            await change
    for taken in (name, f"user:{alice.principal.id}/other", "agent:nobody-123456/x"):
        with pytest.raises(NotFound, match="not found"):
            await store.store(bob, TWO, taken)
    assert [each.name for each in store.listed(alice) if each.owner == alice.owner] == [name]
    assert name not in [each.name for each in store.listed(bob)]
    assert name in [each.name for each in store.listed(admin)]
    assert (await store.get(admin, name)).image == (await store.get(admin, refs[-1])).image
    changed = await store.store(admin, TWO, name)
    assert (changed.pipeline.owner, changed.version.version) == (alice.owner, 2)
    assert (await store.get(alice, "sums")).image.source == TWO.source


async def test_a_caller_needs_the_scope(store: StoredPipelines) -> None:
    reader, nobody = somebody(Scope.EXECUTE), somebody(Scope.NONE)
    for call in (
        store.store(reader, ONE, "x"),
        store.delete(reader, "x"),
        store.publish(reader, "x", "x"),
        store.rollback(reader, "x"),
        store.get(nobody, "x"),
    ):
        with pytest.raises(Denied, match="needs the scope"):
            await call
    with pytest.raises(Denied, match="needs the scope `read`; the caller has no scope"):
        store.listed(nobody)


async def test_the_short_namespace_is_of_the_first_and_a_later_one_gets_the_full_one(store: StoredPipelines) -> None:
    short = f"n{uuid.uuid4().hex[:10]}"
    callers = [somebody(name=f"{short}@{company}.com") for company in ("acme", "other", "acme", "acme")]
    names = [(await store.store(each, ONE, "x")).pipeline.name for each in (*callers, callers[0])]
    last = f"user:{short}@acme.com-{callers[3].owner}/x"
    assert names == [f"user:{short}/x", f"user:{short}@other.com/x", f"user:{short}@acme.com/x", last, names[0]]
    for caller, name in zip(callers, names, strict=False):
        assert (await store.pipeline(caller, "x")).name == name


@requirement("C-ns-2")
async def test_temporary_pipelines_are_of_the_agent_and_expire(store: StoredPipelines) -> None:
    user = f"u{uuid.uuid4().hex}@acme.com"
    claude = Caller(Principal(id="127.0.0.1"), f"claude-code:{user}", Scope.WRITE)
    cursor = Caller(Principal(id="127.0.0.1"), f"cursor:{user}", Scope.WRITE)
    stored = [(await store.store(claude, ONE, name)).pipeline for name in ("temp-x", "agent/y")]
    space = claude.namespaces("agent")[0]
    assert [each.name for each in stored] == [f"{space}/temp-x", f"{space}/y"]
    assert all(timedelta(hours=23) < each.expires_at - utc_now() for each in stored if each.expires_at is not None)
    assert (await store.pipeline(claude, "agent/y")).name == stored[1].name
    assert (await store.pipeline(cursor, stored[0].name)).name == stored[0].name  # the same user
    with pytest.raises(NotFound):
        await store.pipeline(cursor, "temp-x")
    with pytest.raises(Rejected, match="temporary"):
        await store.publish(claude, "temp-x", "x")
    late = {"expires_at": utc_now() - timedelta(seconds=1)}
    for each in stored:
        await kv.put(store.bus, PIPELINE_NAMES, each.model_copy(update=late), name=digest_of(each.name))
    await store.entries.table.poll()
    with pytest.raises(NotFound):
        await store.get(claude, "temp-x")
    assert [each for each in store.listed(claude) if each.owner == claude.owner] == []
    old = an_image(ONE.source, compiled_at=utc_now() - timedelta(hours=1))
    await kv.put(store.bus, PIPELINE_IMAGES, old, owner=claude.owner, hash=old.structural_hash)
    await store.sweep()
    for each in stored:
        assert await kv.get(store.bus, PIPELINE_NAMES, name=digest_of(each.name)) is None
    assert await kv.get(store.bus, PIPELINE_NAMESPACES, namespace=digest_of(space)) is None
    assert await kv.get(store.bus, PIPELINE_IMAGES, owner=claude.owner, hash=old.structural_hash) is None


async def test_versions_are_counted_and_rolled_back_and_the_oldest_are_forgotten(
    store: StoredPipelines, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice = somebody()
    numbers = [(await store.store(alice, image, "x")).version.version for image in (ONE, ONE, TWO, THREE)]
    assert numbers == [1, 1, 2, 3]
    assert (await store.rollback(alice, "x")).active == 2
    assert (await store.get(alice, "x")).image.source == TWO.source
    assert (await store.get(alice, "x", 3)).image.source == THREE.source
    assert (await store.rollback(alice, "x", 1)).outputs == ONE.outputs
    for version in (None, 4):
        with pytest.raises(NotFound, match="no such version"):
            await store.rollback(alice, "x", version)
    monkeypatch.setattr(pipelines, "MOST_VERSIONS", 3)
    monkeypatch.setattr(entries, "_FRESH", timedelta())
    assert (await store.store(alice, an_image("in z: Int\nout z\n"), "x")).version.version == 4
    entry = await store.pipeline(alice, "x")
    assert [each.version for each in entry.versions] == [1, 3, 4]
    with pytest.raises(NotFound):
        await store.get(alice, f"sha256:{TWO.structural_hash}")
    assert MOST_VERSIONS == 50


async def test_an_alias_and_what_can_be_deleted(store: StoredPipelines, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "_FRESH", timedelta())
    alice, bob = somebody(), somebody()
    assert await store.keep_draft(alice, ONE)
    assert not await store.keep_draft(somebody(Scope.READ), ONE)
    ref = f"sha256:{ONE.structural_hash}"
    with pytest.raises(NotFound):
        await store.alias(bob, "x", ref)
    for name, given in (("x", ref), ("y", ONE.structural_hash)):
        assert (await store.alias(alice, name, given)).active_version.structural_hash == ONE.structural_hash
    names = [f"user:{alice.principal.id}/{name}" for name in ("x", "y")]
    assert store.names_of(alice, ONE.structural_hash) == names
    with pytest.raises(Conflict, match=names[0]) as conflict:
        await store.delete(alice, ref)
    assert conflict.value.code == "AliasConflict"
    await store.delete(alice, "x")
    assert (await store.get(alice, "y")).image.source == ONE.source
    await store.delete(alice, "y")
    assert (await store.get(alice, ref)).pipeline is None  # the draft
    await store.delete(alice, ref)
    for gone in (ref, "y", "x"):
        with pytest.raises(NotFound):
            await store.delete(alice, gone)
    monkeypatch.setattr(entries, "MOST_DRAFTS", 1)
    assert [await store.keep_draft(bob, image) for image in (ONE, TWO)] == [True, False]


@requirement("C-ns-3")
async def test_shared_pipelines_are_of_all_who_may_write(store: StoredPipelines) -> None:
    alice, bob, part = somebody(), somebody(), f"p{uuid.uuid4().hex}"
    assert (await store.store(alice, ONE, f"shared/{part}")).pipeline.name == f"shared/{part}"
    assert (await store.get(bob, part)).image.source == ONE.source
    assert (await store.store(bob, TWO, f"shared/{part}")).version.version == 2
    await store.store(bob, THREE, part)
    assert (await store.pipeline(bob, part)).namespace != "shared"  # its own comes first
    assert [each.name for each in store.listed(alice, "shared") if each.name.endswith(part)] == [f"shared/{part}"]
    await store.delete(bob, f"shared/{part}")
    with pytest.raises(NotFound):
        await store.get(alice, part)


async def test_a_published_pipeline_is_a_tool_of_all(store: StoredPipelines) -> None:
    alice, bob, tool = somebody(), somebody(), f"t{uuid.uuid4().hex[:10]}"
    program = an_image(f"in x: Int\n{tool} = x\nout {tool}\n")  # no other test has shared it

    async def tools() -> dict[str, str]:
        found = await kv.get(store.bus, AGENTS, team=PIPELINES_TEAM, agent=PUBLISHED)
        return {each.name: each.description for each in found.tools} if found is not None else {}

    await store.store(alice, program, "x")
    assert (await store.publish(alice, "x", tool, "Adds.")).published is not None
    assert (await tools())[tool] == "Adds."
    assert (await store.by_tool(tool)).image.source == program.source
    by_hash = f"sha256:{program.structural_hash}"
    assert [(await store.get(caller, by_hash)).readable for caller in (alice, bob)] == [True, False]
    with pytest.raises(NotFound):
        await store.alias(bob, "mine", by_hash)
    with pytest.raises(NotFound):
        await store.get(bob, "x")
    await store.store(bob, TWO, "x")
    with pytest.raises(Conflict, match=tool):
        await store.publish(bob, "x", tool)
    own = an_image(TWO.source, modules=(UsedModule(name=f"pipelines.published.{tool}", signature="s"),))
    with pytest.raises(Rejected, match="E031"):
        await store.store(alice, own, "x")
    assert (await store.by_tool(tool)).image.source == program.source
    await store.store(alice, TWO, "x")
    assert (await store.by_tool(tool)).image.source == TWO.source
    await store.unpublish(alice, "x")
    assert tool not in await tools()
    with pytest.raises(NotFound):
        await store.by_tool(tool)
    await store.publish(bob, "x", tool)
    await store.delete(bob, "x")
    assert tool not in await tools()


async def test_what_two_change_at_the_same_time_is_not_lost(store: StoredPipelines, bus: Connecting) -> None:
    alice = somebody()
    async with open_pipelines(await bus(PIPELINES)) as other:
        sources = [an_image(f"in x: Int\nout x{number}\n") for number in range(8)]
        await asyncio.gather(*((store, other)[n % 2].store(alice, image, "x") for n, image in enumerate(sources)))
        entry = await other.pipeline(alice, "x")
        assert sorted(each.structural_hash for each in entry.versions) == sorted(
            each.structural_hash for each in sources
        )


async def test_what_is_too_much_is_refused(store: StoredPipelines, monkeypatch: pytest.MonkeyPatch) -> None:
    alice = somebody()
    many = an_image(inputs={f"x{number}": "Int" for number in range(600)})
    with pytest.raises(Rejected, match="too large"):
        await store.store(alice, many, "x")
    monkeypatch.setattr(pipelines, "MOST_PIPELINES", 1)
    await store.store(alice, ONE, "x")
    await store.store(alice, TWO, "x")
    with pytest.raises(Conflict, match="1 stored pipelines already"):
        await store.store(alice, ONE, "y")
    monkeypatch.setattr(pipelines, "MOST_BYTES", 100)
    with pytest.raises(Conflict, match="MiB already"):
        await store.store(alice, THREE, "x")
    assert await store.images.get(alice.owner, THREE.structural_hash) is None


async def test_pipelines_whose_modules_have_changed_are_found(
    store: StoredPipelines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drift, "PAUSE_SECONDS", 0.0)
    alice, team = somebody(), f"t{uuid.uuid4().hex[:10]}"
    catalogue, agents = Catalogue(), asyncio.Event()

    def offered(*tools: str, **inputs: str) -> None:
        schema = {"properties": {name: {"type": kind} for name, kind in inputs.items()}, "required": ["title"]}
        definition = agent_definition(
            team,
            "shelf",
            revision=uuid.uuid4().hex,
            tools=[ToolDefinition(name=tool, input_schema={"type": "object", **schema}) for tool in tools],
        )
        catalogue.changed(f"{team}.shelf", definition)

    async def broken(*, said: str | None) -> None:
        async def look() -> bool:
            found = (await store.pipeline(alice, "x")).broken
            return found is None if said is None else said in (found or "")

        await until(look)

    offered("find", title="string")
    source = f"use {team}.shelf\nin title: String\nfound = find(title)\nout found\n"
    program = await Compiler(catalogue).compile(source, alice.principal)
    await store.store(alice, program.image(), "x")
    await store.store(alice, ONE, "y")
    async with a_process("pipelines").running(Drift(store, catalogue).keep(agents), "drift"):
        offered("find", title="integer")
        agents.set()
        was, now = (f"{team}.shelf.find(title: {kind}) -> String" for kind in ("String", "Int"))
        await broken(said=f"E015: modules have changed: {was} is now {now}. ")
        offered("find", title="string", limit="integer")  # what the program gives is still enough
        await broken(said=None)
        offered("other", title="string")
        await broken(said=f"E002: there is no module {team}.shelf.find any more")
        offered("find", "other", title="integer")
        await broken(said="E015")
        await store.store(alice, TWO, "x")
        await broken(said=None)
    assert (await store.pipeline(alice, "y")).broken is None
