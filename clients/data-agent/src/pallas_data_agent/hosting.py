"""Hosts agents: forks the nursery, then stays connected to the pool until a signal."""

import asyncio
import json
import logging
import random
import resource
import signal
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus, InvalidURI, WebSocketException

from pallas_data_agent.calls import answer
from pallas_data_agent.children import Children, Nursery
from pallas_data_agent.connection import MOST_BYTES, Connection, Refused

if TYPE_CHECKING:
    from pallas_data_agent.agent import DataAgent

log = logging.getLogger("pallas_data_agent")

_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.25, 30.0
_WORTH_ANOTHER_TRY = (408, 429)
"""The client errors of HTTP that may pass."""

_jitter = random.SystemRandom()


def host(agents: Mapping[str, "DataAgent"], url: str, token: str | None) -> None:
    """Answer calls of these agents until a signal: see `run_agents`."""
    for agent in agents.values():
        _check(agent)

    def execute(request: bytes) -> bytes:
        message = json.loads(request)
        return answer(agents[message["params"]["agent_id"]].tools, message)

    nursery = Nursery(execute)
    try:
        asyncio.run(_stay_connected(agents, nursery, _socket_url(url), token))
    except asyncio.CancelledError:
        log.info("stopped")
    except Refused as refused:
        log.error("%s", refused)
        raise SystemExit(2) from None
    finally:
        nursery.close()


def _check(agent: "DataAgent") -> None:
    if not agent.tools:
        raise ValueError(f"{agent.agent_id} has no tools")
    if 0 < agent.memory < (taken := _address_space()):
        raise ValueError(f"{agent.agent_id}: memory {agent.memory_limit}: the modules alone take {taken >> 20} MiB")


async def _stay_connected(agents: Mapping[str, "DataAgent"], nursery: Nursery, url: str, token: str | None) -> None:
    """Connect again whenever the connection is lost, until a signal cancels this."""
    _cancel_on_signals()
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    children = {name: Children(nursery, each.memory, each.max_concurrency) for name, each in agents.items()}
    pause = _SHORTEST_PAUSE
    while True:
        since, problem = monotonic(), Exception()
        try:
            async with connect(url, additional_headers=headers, max_size=MOST_BYTES) as socket:
                await Connection(socket, agents, children).serve()
        except InvalidURI as error:
            raise Refused(str(error)) from error
        except (OSError, WebSocketException) as error:
            problem = error
            if isinstance(error, InvalidStatus) and _is_final(error.response.status_code):
                raise Refused(f"{url} answers with HTTP status {error.response.status_code}") from error
        if monotonic() - since > _LONGEST_PAUSE:
            pause = _SHORTEST_PAUSE
        log.warning("no connection to %s (%s); trying again", url, problem)
        await asyncio.sleep(_jitter.uniform(pause / 2, pause))
        pause = min(2 * pause, _LONGEST_PAUSE)


def _is_final(status: int) -> bool:
    return 400 <= status < 500 and status not in _WORTH_ANOTHER_TRY


def _cancel_on_signals() -> None:
    """Cancel this task at the first signal. A second one has its usual effect."""
    loop, task, numbers = asyncio.get_running_loop(), asyncio.current_task(), (signal.SIGTERM, signal.SIGINT)

    def stop() -> None:
        for number in numbers:
            loop.remove_signal_handler(number)
        if task is not None:
            task.cancel()

    for number in numbers:
        loop.add_signal_handler(number, stop)


def _socket_url(url: str) -> str:
    """The address of the pool's WebSocket; `url` may begin with http and have no path."""
    parts = urlsplit(url)
    scheme = {"http": "ws", "https": "wss"}.get(parts.scheme, parts.scheme)
    return parts._replace(scheme=scheme, path=parts.path.rstrip("/") or "/rpc").geturl()


def _address_space() -> int:
    """The bytes of address space that this process takes, as each child does from the start; 0 if it is not known."""
    with suppress(OSError):
        return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    return 0
