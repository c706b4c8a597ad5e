"""The parts of a storm."""

from pathlib import Path

import pytest
from tests.chaos.parts import find_fast_agent


async def test_a_storm_without_fast_agent_tries_to_install_it_and_says_why_it_cannot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    uv = tmp_path / "uv"
    uv.write_text("#!/bin/sh\necho no room\nexit 1\n", "utf-8")
    uv.chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.delenv("PALLAS_FAST_AGENT_PYTHON", raising=False)
    monkeypatch.setattr("pallas_cli.processes.fast_agent._PLACE", tmp_path / "place")
    assert await find_fast_agent() is None
    assert "no agents of fast-agent: fast-agent cannot be installed: no room" in capsys.readouterr().out
