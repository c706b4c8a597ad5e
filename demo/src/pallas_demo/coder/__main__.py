"""Starts a stand-in for Coder (or, with `--agentapi`, for AgentAPI alone) until a signal."""

import argparse
import asyncio
import os
import secrets
import shlex
import signal
from pathlib import Path
from typing import get_args

from pallas_demo.coder import DEMO_AGENT, CoderStandIn, StandInSettings, TerminalSettings
from pallas_demo.coder.agentapi import agent_api
from pallas_demo.coder.listener import Listener
from pallas_demo.coder.settings import Generation, Lifecycle
from pallas_demo.coder.terminal import Terminal

DEFAULT_PORT = 7080
VARIABLE = "PALLAS_CODER_TOKEN"


async def _until_signal() -> None:
    over = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, over.set)
    await over.wait()


async def _coder(settings: StandInSettings) -> None:
    async with CoderStandIn(settings) as coder:
        print(f"stand-in for Coder (demo and test equipment) at {coder.url}", flush=True)
        if VARIABLE not in os.environ:
            print(f"session token: {coder.token}", flush=True)
        await _until_signal()


async def _agent_api(settings: StandInSettings, command: tuple[str, ...]) -> None:
    terminal, listener = Terminal(settings.terminal), Listener(settings.port)
    await terminal.start(command, Path.cwd(), dict(os.environ), settings.limits)
    await listener.open(agent_api(terminal))
    print(f"stand-in for AgentAPI (demo and test equipment) at {listener.url}", flush=True)
    await asyncio.wait(
        [asyncio.create_task(_until_signal()), asyncio.create_task(terminal.wait())], return_when="FIRST_COMPLETED"
    )
    await listener.close()
    await listener.idle()
    if (code := terminal.exit_code) is not None:  # AgentAPI ends with its program, too
        raise SystemExit(f"the program exited with code {code}")
    await terminal.close()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m pallas_demo.coder",
        description="A stand-in for Coder and AgentAPI: demo and test equipment, not a product and no part of Coder.",
    )
    parser.add_argument("--port", type=int, default=DEFAULT_PORT, help="port on loopback (default: %(default)s)")
    parser.add_argument("--state", type=Path, help="file that keeps workspaces; without it they end with the process")
    parser.add_argument("--folder", type=Path, help="folder of the workspaces' folders (default: a temporary one)")
    parser.add_argument("--resume", action="store_true", help="start workspaces that were on when it ended")
    parser.add_argument("--generation", choices=get_args(Generation.__value__), default="both", help="of Coder's tasks")
    parser.add_argument("--release", type=int, default=29, help="of Coder 2 (default: %(default)s)")
    parser.add_argument(
        "--lifecycle", choices=get_args(Lifecycle.__value__), default="ready", help="of startup scripts"
    )
    parser.add_argument("--no-cancel", action="store_true", help="builds may not be cancelled")
    parser.add_argument("--program", help="command to run in workspaces (default: the demo agent)")
    parser.add_argument(
        "--pass", dest="passed", action="append", default=[], help="environment variable for the program"
    )
    parser.add_argument("--build-seconds", type=float, default=0.3, help="time of a build (default: %(default)s)")
    parser.add_argument("--stable-after", type=float, default=2.0, help="seconds until a quiet screen is stable")
    parser.add_argument("--no-sandbox", action="store_true", help="run programs without bubblewrap")
    parser.add_argument("--allow-faults", action="store_true", help="serve the fault switches of tests")
    parser.add_argument("--agentapi", metavar="COMMAND", help="serve AgentAPI alone, for one command in this folder")
    return parser


def main() -> None:
    """Parse the command line and serve. The session token is in PALLAS_CODER_TOKEN, else a new one is printed."""
    given = _parser().parse_args()
    settings = StandInSettings(
        token=os.environ.get(VARIABLE) or secrets.token_hex(16),
        port=given.port,
        generation=given.generation,
        release=given.release,
        lifecycle=given.lifecycle,
        cancels=not given.no_cancel,
        program=tuple(shlex.split(given.program)) if given.program else DEMO_AGENT,
        environment={name: os.environ[name] for name in given.passed if name in os.environ},
        build_seconds=given.build_seconds,
        state=given.state,
        folder=given.folder,
        resume=given.resume,
        allow_faults=given.allow_faults,
        sandbox=not given.no_sandbox,
        terminal=TerminalSettings(stable_after=given.stable_after),
    )
    asyncio.run(_agent_api(settings, tuple(shlex.split(given.agentapi))) if given.agentapi else _coder(settings))


if __name__ == "__main__":
    main()
