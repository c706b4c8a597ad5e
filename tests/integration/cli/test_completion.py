"""Completion in real shells: commands, and what the running platform has."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.builders import agent_definition
from tests.conftest import Connecting
from tests.debian_tools import tool
from tests.embedded import NatsServer, free_port
from tests.requirements import requirement

from pallas_bus import kv
from pallas_bus.streams import declare
from pallas_contracts.catalog import AGENTS, BUCKETS, CLI, STREAMS

BIN = Path(sys.executable).parent
BASH = """\
eval "$(pallas completion bash)"
COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_pallas_completion pallas
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
# The script hands its completions to functions of zsh's own completion, which is another package.
ZSH = """\
compdef() {{ }}
_arguments() {{ print -r -- ${{${{1#*\\(\\(}}%\\)\\)}} }}
eval "$(pallas completion zsh)"
words=({words}); CURRENT=${{#words}}
_pallas_completion | tr -d '"' | tr ' ' '\\n'
"""
FISH = """\
pallas completion fish | source
complete --do-complete "{words}"
"""

type Complete = Callable[[str, str], list[str]]


@pytest.fixture
def complete(tmp_path: Path) -> Complete:
    """What a shell offers for a command line, by the shell's name."""
    (tmp_path / "libpcre2-32.so.0").symlink_to(tool("libpcre2-32.so.0"))
    shells = {
        "bash": (["bash", "--norc", "-c"], BASH),
        "zsh": ([str(tool("zsh-static")), "-f", "-c"], ZSH),
        "fish": ([str(tool("fish")), "--no-config", "-c"], FISH),
    }
    environ = {
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        "LD_LIBRARY_PATH": str(tmp_path),
        "HOME": str(tmp_path),
    }

    def offered(shell: str, words: str) -> list[str]:
        command, script = shells[shell]
        run = [*command, script.format(words=words)]
        done = subprocess.run(
            run, env=os.environ | environ, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
        )
        assert done.stderr == ""
        return [line.partition("\t")[0] for line in done.stdout.split("\n") if line]

    return offered


@pytest.fixture
async def nats(nats_server: NatsServer, bus: Connecting) -> str:
    """The address of a broker that knows three agents of two teams."""
    for owner in {each.owner for each in (*STREAMS, *BUCKETS)}:
        owned = [each for each in (*STREAMS, *BUCKETS) if each.owner == owner]
        await declare(await bus(owner, url=nats_server.url), *owned)
    connection = await bus(CLI, url=nats_server.url)
    for team, agent in (("demo", "harper"), ("demo", "research"), ("other", "harper")):
        await kv.put(connection, AGENTS, agent_definition(team, agent), team=team, agent=agent)
    return nats_server.url


@requirement("K-cli-4")
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
async def test_a_shell_offers_the_agents_of_the_platform(complete: Complete, nats: str, shell: str) -> None:
    assert complete(shell, f"pallas agents show --nats {nats} demo/") == ["demo/harper", "demo/research"]


async def test_commands_and_teams_are_offered(complete: Complete, nats: str) -> None:
    assert complete("bash", "pallas agents re") == ["retire"]
    assert complete("bash", f"pallas turns list --nats {nats} --team o") == ["other"]


async def test_the_tools_of_an_agent_are_offered(
    complete: Complete, nats: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PALLAS_NATS_URL", nats)
    assert complete("bash", "pallas call demo/research r") == ["research"]


def test_a_platform_that_does_not_answer_offers_nothing_at_once(complete: Complete) -> None:
    assert complete("bash", f"pallas agents show --nats nats://127.0.0.1:{free_port()} d") == []
