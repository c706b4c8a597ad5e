"""A server whose tools tests can see from outside: it appends a line to a file for each call."""

import os
import time
from pathlib import Path

import anyio
import anyio.to_thread
from mcp.server.mcpserver import Context, MCPServer
from mcp_types import ToolAnnotations

server = MCPServer("ledger", instructions="The ledger knows all amounts.")


def _note(what: str) -> None:
    if path := os.environ.get("LEDGER_FILE"):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(f"{what}\n")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def balance(account: str) -> str:
    """The balance of an account."""
    _note(f"balance {account}")
    return f"{account}: 42"


@server.tool()
async def pay(account: str, context: Context) -> str:
    """Pay something."""
    _note(f"pay {account}")
    await context.report_progress(1, 2, "half paid")
    return f"paid {account}"


@server.tool()
async def wait_for(path: str) -> str:
    """Wait until there is a file."""
    _note("wait_for begins")
    await anyio.to_thread.run_sync(_wait, path, abandon_on_cancel=True)
    return "there it is"


def _wait(path: str) -> None:
    """Wait for a file, but not for ever: a worker that was killed leaves this process behind."""
    until = time.monotonic() + 60
    while not Path(path).exists() and time.monotonic() < until:
        time.sleep(0.01)


@server.tool()
def refuse() -> str:
    """Fail."""
    raise ValueError("the ledger is closed")


@server.tool()
def save(name: str, text: str) -> str:
    """Write a file of the working directory, as the filesystem server does: not through a link out of it."""
    path = Path(name).resolve()
    if not path.is_relative_to(Path.cwd()) or not Path("agents.yaml").resolve().is_relative_to(Path.cwd()):
        raise ValueError("it is outside of the folder")
    path.write_text(text, "utf-8")
    return "saved"


@server.tool()
def leave() -> str:
    """End the process of the server."""
    _note("leave")
    os._exit(1)


if __name__ == "__main__":
    server.run()
