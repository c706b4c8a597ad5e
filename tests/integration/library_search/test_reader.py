"""Files are read in a process with limits on time and memory."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.integration.library_search.files import a_bomb, a_pdf
from tests.waiting import PATIENCE

from library_search.reading.child import Limits
from library_search.reading.formats import MARKDOWN, PDF, PLAIN, TOO_MUCH
from library_search.reading.reader import SMALL, Reader
from pallas_contracts.errors import Rejected

MB = 1024 * 1024


@asynccontextmanager
async def a_reader(**limits: Any) -> AsyncGenerator[Reader]:
    """A reader of these limits."""
    reader = Reader(Limits(**limits))
    try:
        yield reader
    finally:
        await reader.close()


@pytest.fixture
def started_processes(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    processes: list[object] = []
    start: Callable[..., Any] = asyncio.create_subprocess_exec

    async def counted(*args: Any, **options: Any) -> object:
        processes.append(await start(*args, **options))
        return processes[-1]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", counted)
    return processes


async def test_small_text_files_share_one_process_and_each_other_file_gets_its_own(
    started_processes: list[object],
) -> None:
    async with a_reader() as reader:
        for number in range(3):
            read = await reader.read(f"# Book {number}\n\nText.\n".encode(), MARKDOWN)
            assert (read.title, [chunk.heading for chunk in read.chunks]) == (f"Book {number}", [f"Book {number}"])
        assert (await reader.read("Katzen schlafen. 🐈".encode(), PLAIN)).chunks[0].text == "Katzen schlafen. 🐈"
        assert len(started_processes) == 1
        for _ in range(2):
            await reader.read(a_pdf("Cats."), PDF)
        await reader.read(b"a " * SMALL, PLAIN)
        await reader.read(b"a", PLAIN)
        assert len(started_processes) == 4


BOMBS = {
    "headings": (b"# a\n" * MB, MARKDOWN),
    "paragraphs": (b"a\n\n" * MB, MARKDOWN),
    "pdf": (a_bomb(b"(a) Tj\n", 400_000), PDF),
}


@pytest.mark.parametrize("bomb", BOMBS)
async def test_a_file_that_takes_too_long_is_refused_without_blocking_the_event_loop(bomb: str) -> None:
    async with a_reader(seconds=0.7) as reader:
        reading = asyncio.create_task(reader.read(*BOMBS[bomb]))
        longest, last = 0.0, time.monotonic()
        while not reading.done():
            await asyncio.sleep(0.01)
            longest, last = max(longest, time.monotonic() - last), time.monotonic()
        with pytest.raises(Rejected, match=r"the file could not be read within 0\.7 s"):
            await reading
        assert longest < 2, "the event loop stood still"


@pytest.mark.parametrize("bomb", BOMBS)
async def test_a_file_that_takes_too_much_memory_is_refused_and_the_next_one_is_read(bomb: str) -> None:
    async with a_reader(memory=100 * MB) as reader:
        with pytest.raises(Rejected, match=TOO_MUCH):
            await reader.read(*BOMBS[bomb])
        assert (await reader.read(b"# Cats", MARKDOWN)).title == "Cats"
        assert (await reader.read(a_pdf("Cats."), PDF)).text == "Cats.\n\n"


@pytest.mark.parametrize("text", ["[" * 800_000, "# " + "[" * 800_000, "*a **b " * 100_000, "\n" + "![[" * 200_000])
async def test_unclosed_markup_is_read_in_linear_time(text: str) -> None:
    async with a_reader(seconds=PATIENCE) as reader, asyncio.timeout(PATIENCE):
        assert (await reader.read(text.encode(), MARKDOWN)).text == text


async def test_a_file_with_too_many_passages_is_refused() -> None:
    async with a_reader(chunks=1000) as reader:
        await reader.read(b"# a\n" * 1000, MARKDOWN)
        with pytest.raises(Rejected, match="the file has more than 1000 passages"):
            await reader.read(b"# a\n" * 1001, MARKDOWN)


async def test_a_small_file_with_too_much_text_or_too_long_headings_is_refused() -> None:
    async with a_reader(text=1500) as reader:
        with pytest.raises(Rejected, match="too much text"):
            await reader.read(a_pdf(*["x" * 100] * 20), PDF)
        with pytest.raises(Rejected, match="headings of the file are too long"):
            await reader.read(f"# {'x' * 150}\n".encode() * 10, MARKDOWN)


async def test_a_reader_process_that_has_ended_is_replaced(started_processes: list[Any]) -> None:
    async with a_reader() as reader:
        await reader.read(b"One.", PLAIN)
        started_processes[0].kill()
        await started_processes[0].wait()
        assert (await reader.read(b"Two.", PLAIN)).text == "Two."


async def test_the_largest_allowed_file_of_ordinary_text_is_read_within_the_limits() -> None:
    async with a_reader() as reader:
        text = "A line of words.\n" * (32 * MB // 17) + "🐈"
        assert len((await reader.read(text.encode(), PLAIN)).chunks) > 30_000
