"""Checks as services make them: what is small here, all else in a process that is ended when it takes too long."""

import asyncio
import io
import os
import signal
import sys
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.hostile import doubling
from tests.waiting import eventually, is_gone, run_delay, soon

from pallas_contracts.agents import JsonObject
from pallas_contracts.errors import Rejected, Unavailable
from pallas_schemas import apart, helper, schema
from pallas_schemas.apart import COMMAND, Apart
from pallas_schemas.schema import Schema
from pallas_schemas.small import plain_size
from pallas_schemas.tool_schema import UNEXPLAINED, ToolSchema
from pallas_schemas.work import TOO_MUCH

RECURSIVE: JsonObject = {"properties": {"rows": {"items": {"$ref": "#"}}}, "additionalProperties": False}
"""It is not plain, so all its checks are made apart."""


def unevaluated(levels: int) -> JsonObject:
    """Each level has its neighbour checked three times."""
    last: JsonObject = {"type": "object"}
    for _ in range(levels):
        last = {"anyOf": [last], "unevaluatedProperties": {"type": "integer"}}
    return {"properties": {"x": last}}


@pytest.fixture(autouse=True)
def own(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Threads and processes of the test's own."""
    before = children()
    monkeypatch.setattr(schema, "APART", Apart())
    yield
    for child in children() - before:
        os.kill(child, signal.SIGKILL)


@asynccontextmanager
async def loop_stays_free() -> AsyncGenerator[None]:
    """Fail if the event loop does nothing for a second at a time, without the time in which it had no processor."""
    longest = 0.0

    async def watch() -> None:
        nonlocal longest
        while True:
            began = time.monotonic() - run_delay()
            await asyncio.sleep(0.005)
            longest = max(longest, time.monotonic() - run_delay() - began)

    watching = asyncio.create_task(watch())
    yield
    await asyncio.sleep(0.01)
    assert watching.cancel()
    assert longest < 1


def uncounted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let processes take all checks for cheap, as if a keyword were not known to cost much."""
    code = "import pallas_schemas.work as w; w.Work.of = lambda *_: 1; import pallas_schemas.helper as h; h.main()"
    monkeypatch.setattr("pallas_schemas.apart.COMMAND", (*COMMAND[:2], "-c", code))


@pytest.mark.parametrize("tool_schema", [unevaluated(20), doubling(40)], ids=["unevaluated", "doubling"])
async def test_a_check_that_the_counter_takes_for_cheap_and_is_not_is_ended_and_stops_nothing(
    monkeypatch: pytest.MonkeyPatch, tool_schema: JsonObject
) -> None:
    uncounted(monkeypatch)
    hostile = await Schema.compiled(tool_schema, "evil")
    async with loop_stays_free():
        assert await soon(hostile.faults({"x": {"a": 1}, "text": 7})) == [TOO_MUCH]
    with pytest.raises(Unavailable, match="took too long") as refused:
        await hostile.faults({"x": {"a": 1}})
    assert refused.value.code == "busy"


async def test_an_owner_whose_check_was_ended_is_refused_and_others_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    uncounted(monkeypatch)
    hostile, good = await Schema.compiled(unevaluated(20), "evil"), await Schema.compiled(RECURSIVE, "good")
    attacks = [asyncio.create_task(hostile.faults({"x": {"a": 1}})) for _ in range(16)]
    found = await soon(asyncio.gather(*(good.faults({"rows": [{"rows": []}]}) for _ in range(16))))
    assert found == [[]] * 16
    ends = await soon(asyncio.gather(*attacks, return_exceptions=True))
    assert sum(end == [TOO_MUCH] for end in ends) <= apart.MOST_PROCESSES
    assert all(end == [TOO_MUCH] or isinstance(end, Unavailable) for end in ends)


async def test_of_one_owner_only_some_checks_may_wait() -> None:
    good = await Schema.compiled(RECURSIVE, "good")
    ends = await soon(asyncio.gather(*(good.faults({"rows": []}) for _ in range(200)), return_exceptions=True))
    refused = [end for end in ends if isinstance(end, Unavailable)]
    assert refused
    assert {str(end) for end in refused} == {"Too many large checks of arguments wait. Try again shortly."}
    assert [end for end in ends if end not in refused] == [[]] * (200 - len(refused))


async def test_a_schema_that_takes_too_long_to_compile_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import pallas_schemas.helper as h; h.ToolSchema = lambda _: [0 for _ in iter(int, 1)]; h.main()"
    monkeypatch.setattr("pallas_schemas.apart.COMMAND", (*COMMAND[:2], "-c", code))
    with pytest.raises(Rejected, match="it takes too long to compile, or has"):
        await soon(Schema.compiled(RECURSIVE, "evil"))


async def test_what_is_checked_apart_is_judged_and_explained_as_here() -> None:
    compiled = await Schema.compiled(RECURSIVE, "good")
    assert await compiled.faults({"rows": [{"rows": [{}]}]}) == []
    assert await compiled.faults({"rows": [{"odd": 1}]}) == ["rows/0: unknown field 'odd'"]
    assert await compiled.faults({"rows": [{"odd": 1}] * 20_000}) == [UNEXPLAINED]
    assert await compiled.faults({"rows": [[]] * 200_000}) == [
        "there are more than 150,000 values in them that the tool's schema checks"
    ]
    with pytest.raises(Rejected, match=r"^/properties/x/pattern: the pattern has to be"):
        await Schema.compiled({"properties": {"x": {"pattern": "(?=a)"}}}, "good")


@pytest.mark.parametrize(
    "value",
    [
        {"rows": [10**4000] * 5_000},
        {"rows": [10**90] * 5_000},
        {"k" * 10_000_000: 1},
    ],
    ids=["long numbers", "many long numbers", "a long name"],
)
async def test_a_plain_check_of_long_numbers_or_names_does_not_stop_the_loop(value: JsonObject) -> None:
    rows: JsonObject = {"items": {"allOf": [{"minimum": number} for number in range(100)]}}
    names: list[JsonObject] = [{"properties": {f"{field}": True for field in range(50)}} for _ in range(10)]
    compiled = await Schema.compiled({"allOf": names, "properties": {"rows": rows}}, "good")
    async with loop_stays_free():
        assert await soon(compiled.faults(value)) in ([], ["there are too many long numbers in them"], [TOO_MUCH])


async def test_a_process_that_ends_between_checks_is_replaced() -> None:
    compiled = await Schema.compiled(RECURSIVE, "good")
    for child in children():
        os.kill(child, signal.SIGKILL)
    assert await soon(compiled.faults({"rows": []})) == []


async def test_a_plain_small_check_starts_no_process() -> None:
    before = children()
    compiled = await Schema.compiled({"properties": {"message": {"type": "string"}}, "required": ["message"]}, "good")
    assert await compiled.faults({"message": "x" * 1_000_000}) == []
    assert await compiled.faults({}) == ["arguments: 'message' is required"]
    assert children() == before


PARENT = """
import asyncio, pathlib, sys
from pallas_schemas.schema import Schema
asyncio.run(Schema.compiled({"uniqueItems": True}, "good"))
print(*(path.read_text() for path in pathlib.Path("/proc/self/task").glob("*/children")), flush=True)
sys.stdin.read()
"""


async def test_a_process_has_no_secrets_and_little_memory_and_ends_with_its_parent() -> None:
    environment = {**os.environ, "PALLAS_SECRET_KEY": "private"}
    pipe = asyncio.subprocess.PIPE
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-c", PARENT, stdin=pipe, stdout=pipe, env=environment, cwd="/"
    )
    assert parent.stdout is not None
    child = Path("/proc") / (await soon(parent.stdout.readline())).decode().strip()
    facts = {name: await asyncio.to_thread((child / name).read_text) for name in ("environ", "limits")}
    assert "private" not in facts["environ"]
    assert f"{1 << 29}" in facts["limits"].split("Max address space")[1].splitlines()[0]
    parent.kill()
    await parent.wait()
    await eventually(lambda: is_gone(int(child.name)))


SCHEMAS: list[tuple[Any, bool]] = [
    ({"$schema": "x", "properties": {"a": {"type": "string", "maxLength": 5}}, "x-note": 1}, True),
    ({"$defs": {"n": {"type": "string"}}, "properties": {"a": {"$ref": "#/$defs/n"}}}, True),
    (doubling(8), False),
    (doubling(60), False),
    (RECURSIVE, False),
    (unevaluated(1), False),
    ({"properties": {"a": {"pattern": "a"}}}, False),
    ({"uniqueItems": True}, False),
    ({"properties": {"a": {"unheard": {}}}}, False),
    ({"const": [list(range(2_000))]}, False),
    ({"properties": 5}, False),
    ({"items": [{}]}, False),
]


@pytest.mark.parametrize(("tool_schema", "plain"), SCHEMAS)
def test_a_schema_is_plain_if_all_its_keywords_are_known_to_be_cheap_and_it_is_small(
    tool_schema: JsonObject, plain: bool
) -> None:
    assert (plain_size(tool_schema) is not None) == plain


def children() -> set[int]:
    """The processes that this one has started and that run."""
    return {int(pid) for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()}


def test_a_value_is_read_within_the_limit_of_the_count(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = list[str]()

    def note(step: str, _given: object) -> None:
        steps.append(step)

    monkeypatch.setattr(helper, "_limit", partial(note, "limit"))
    monkeypatch.setattr(helper, "_loads", partial(note, "read"))
    vars(helper)["_faults"](io.BytesIO(), ToolSchema({"type": "null"}), b"null")
    assert steps == ["limit", "read", "limit"]
