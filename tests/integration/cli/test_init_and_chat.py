"""`pallas init` writes a team that answers, and `pallas chat` talks to it: agents, images, and Ctrl-C on a terminal."""

import asyncio
import base64
import json
import os
import pty
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.integration.pallas_command import Pallas
from tests.integration.real_parts import a_gateway, a_worker, until

PALLAS = str(Path(sys.executable).parent / "pallas")
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.fixture(scope="module")
async def gateway(nats_url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[str]:
    """A gateway in front of a worker that hosts what `pallas init --python` wrote."""
    home = tmp_path_factory.mktemp("init")
    pallas = Pallas({}, home)
    assert "pallas up --teams my-team" in (await pallas.done("init", "my-team", "--python")).out
    check = (await pallas.done("agents", "validate", "my-team", "--json")).json
    assert [team["agents"] for team in check["teams"]] == [["assistant", "clock"]]
    async with AsyncExitStack() as stack:
        front = await stack.enter_async_context(a_gateway(nats_url))
        await stack.enter_async_context(a_worker(nats_url, home / "my-team"))

        async def answers() -> bool:
            return (await Pallas({}, home)("rpc", "clock", "now", "--url", front.base)).code == 0

        await until(answers)
        yield front.base


async def chat(gateway: str, folder: Path, *words: str, typed: str) -> tuple[int | None, str, str]:
    """Pipe lines into a chat; returns exit code, output and errors."""
    process = await asyncio.create_subprocess_exec(
        *(PALLAS, "chat", "assistant", "--url", gateway, *words),
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    out, err = await process.communicate(typed.encode())
    return process.returncode, out.decode(), err.decode()


async def test_a_chat_sends_images_and_changes_its_agent(gateway: str, tmp_path: Path) -> None:
    (tmp_path / "pixel.png").write_bytes(PIXEL)
    typed = "/image pixel.png\n/images\n/images\n/agent my-team/assistant\n/say hello\n/help\n/quit\n/say never\n"
    code, out, err = await chat(gateway, tmp_path, "--json", typed=typed)
    first, second, third = (json.loads(line) for line in out.splitlines())
    assert code == 0, err
    assert [(each["of"], each["bytes"]) for each in json.loads(first["answer"])] == [("turn", len(PIXEL))]
    assert [each["of"] for each in json.loads(second["answer"])] == ["history"]
    assert (third["agent"], third["answer"]) == ("my-team/assistant", "hello")
    assert "pixel.png goes with your next message" in err


async def test_a_command_that_fails_ends_a_chat_that_nobody_types(gateway: str, tmp_path: Path) -> None:
    code, out, err = await chat(gateway, tmp_path, typed="/agent nobody\n/say never\n")
    assert (code, out) == (1, "")
    assert "there is no agent 'nobody'; `pallas agents list` shows all agents" in err


@pytest.mark.parametrize(("typed", "meant"), [("asistant", "assistant"), ("my-team/asistant", "my-team/assistant")])
async def test_a_chat_names_the_agents_that_may_have_been_meant(
    gateway: str, tmp_path: Path, typed: str, meant: str
) -> None:
    refused = await Pallas({}, tmp_path)("chat", typed, "--url", gateway, "--message", "hello", "--json")
    assert (refused.code, refused.error["code"], refused.error["details"]) == (
        1,
        "not_found",
        {"did_you_mean": [meant]},
    )


async def test_ctrl_c_cancels_the_turn_and_the_chat_goes_on(gateway: str) -> None:
    screen, terminal = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        *(PALLAS, "chat", "assistant", "--url", gateway),
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env={**os.environ, "TERM": "xterm"},
        start_new_session=True,
        preexec_fn=lambda: take_terminal(terminal),
    )
    os.close(terminal)
    seen = Screen(screen)
    os.write(screen, b"/sleep 60\n")
    await seen.until("step 1")
    os.write(screen, b"\x03")
    await seen.until("cancelled")
    os.write(screen, b"/say still here\n/quit\n")
    assert await asyncio.wait_for(process.wait(), 20) == 0
    await seen.until("still here\r\n")
    os.close(screen)


def take_terminal(terminal: int) -> None:
    """Make it the terminal of this process, so that Ctrl-C is a signal."""
    import fcntl
    import termios

    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)


class Screen:
    """What a program writes to its terminal."""

    def __init__(self, end: int) -> None:
        self._end = end
        self._text = ""

    async def until(self, words: str) -> None:
        """Read until these words have come."""
        async with asyncio.timeout(20):
            while words not in self._text:
                self._text += await asyncio.to_thread(self._read)
        self._text = self._text.partition(words)[2]

    def _read(self) -> str:
        try:
            return os.read(self._end, 65536).decode(errors="replace")
        except OSError as error:
            raise AssertionError(f"the program ended: {self._text!r}") from error


async def test_a_folder_with_files_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "team").mkdir()
    (tmp_path / "team" / "mine").touch()
    assert await Pallas({}, tmp_path).refused("init", "team") == ["pallas: team is not empty: choose another folder"]
    assert [path.name for path in (tmp_path / "team").iterdir()] == ["mine"]
