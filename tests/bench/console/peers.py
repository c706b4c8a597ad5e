"""The peers of the console: chats of chainlit and open-webui, each in its own environment."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.bench.console.pages import Page
from tests.bench.processes import running

TOOLS = Path(__file__).parents[3] / ".tools"
CHAINLIT, OPEN_WEBUI = "chainlit", "open-webui"
_STARTS_WITHIN = 240.0
_APP = """
import chainlit as cl

@cl.on_message
async def answer(message: cl.Message) -> None:
    await cl.Message(content=f"You said: {message.content}").send()
"""


def _python(name: str) -> Path:
    return TOOLS / name / "bin" / "python"


def version(name: str) -> str | None:
    """The version that is installed, None if there is none."""
    folders = list((TOOLS / name / "lib").glob(f"python3*/site-packages/{name.replace('-', '_')}-*.dist-info"))
    installed = folders and (TOOLS / name / ".installed").exists()
    return folders[0].name.removesuffix(".dist-info").rpartition("-")[2] if installed else None


@asynccontextmanager
async def chainlit(folder: Path) -> AsyncGenerator[Page]:
    """A chat of chainlit.

    Raises:
        FileNotFoundError: it is not installed; `make bench` does that.
    """
    home = folder / CHAINLIT
    home.mkdir()
    app = home / "app.py"
    app.write_text(_APP, "utf-8")
    env = {"CHAINLIT_APP_ROOT": str(home)}
    arguments = ("run", str(app), "--headless", "--host", "127.0.0.1", "--port", "{port}")
    with running(CHAINLIT, folder, "chainlit", *arguments, env=env, python=_python(CHAINLIT)) as process:
        await asyncio.to_thread(process.wait_for, "")
        yield Page(CHAINLIT, f"http://127.0.0.1:{process.port}/", "#chat-input")


@asynccontextmanager
async def open_webui(folder: Path) -> AsyncGenerator[Page]:
    """A chat of open-webui. It takes half a minute or more to start."""
    home = folder / OPEN_WEBUI
    home.mkdir()
    env = {
        "DATA_DIR": str(home),
        "HF_HUB_OFFLINE": "1",
        "OFFLINE_MODE": "true",
        "FROM_INIT_PY": "true",
        "WEBUI_AUTH": "false",
        "WEBUI_SECRET_KEY": "for-measurements-only",
    }
    arguments = ("open_webui.main:app", "--host", "127.0.0.1", "--port", "{port}", "--log-level", "warning")
    with running(OPEN_WEBUI, folder, "uvicorn", *arguments, env=env, python=_python(OPEN_WEBUI)) as process:
        await asyncio.to_thread(process.wait_for, "health", _STARTS_WITHIN)
        yield Page(OPEN_WEBUI, f"http://127.0.0.1:{process.port}/", "#chat-input")
