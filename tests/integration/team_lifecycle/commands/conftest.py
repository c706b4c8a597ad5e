"""The `pallas` command as an admin runs it, against a service at work.

It runs in a thread of the test, with its own arguments, variables and output: a process each would take far longer.
"""

import asyncio
import io
import json
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.integration.team_lifecycle.lab import ADMIN_PASSWORD, Lifecycle

from pallas_cli.main import app


@dataclass(frozen=True)
class Said:
    """What a command has said."""

    words: tuple[str, ...]
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The document on standard output."""
        return json.loads(self.out)

    @property
    def rows(self) -> list[list[str]]:
        """The cells of a table, without its headers; empty ones are left out."""
        return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in self.out.splitlines()[1:]]


@dataclass
class Pallas:
    """Runs the command in `folder`. `said` is all that it has said."""

    environ: dict[str, str]
    folder: Path
    said: list[Said] = field(default_factory=list[Said])

    async def __call__(self, *words: str) -> Said:
        """Run it with these words."""
        said = await asyncio.to_thread(self._run, words)
        self.said.append(said)
        return said

    async def done(self, *words: str) -> Said:
        """Run it and expect that it did what it was told."""
        said = await self(*words)
        assert said.code == 0, said
        return said

    async def refused(self, *words: str, code: int = 1) -> list[str]:
        """Run it and expect that it did nothing; the lines on standard error."""
        said = await self(*words)
        assert (said.code, said.out) == (code, ""), said
        return said.err.splitlines()

    def _run(self, words: tuple[str, ...]) -> Said:
        out, err, code = io.StringIO(), io.StringIO(), 0
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            patch.chdir(self.folder)
            patch.setattr(sys, "argv", ["pallas", *words])
            for name in ("PALLAS_ADMIN_PASSWORD", "PALLAS_TEAM_LIFECYCLE_URL"):
                patch.delenv(name, raising=False)
            for name, value in self.environ.items():
                patch.setenv(name, value)
            try:
                app()
            except SystemExit as end:
                code = int(end.code or 0)
        return Said(words, code, out.getvalue(), err.getvalue())


@pytest.fixture
def environ(lifecycle: Lifecycle) -> dict[str, str]:
    """What tells the command where the service is and what its password is."""
    return {"PALLAS_TEAM_LIFECYCLE_URL": lifecycle.base, "PALLAS_ADMIN_PASSWORD": ADMIN_PASSWORD}


@pytest.fixture
def pallas(environ: dict[str, str], tmp_path: Path) -> Pallas:
    """The command."""
    return Pallas(environ, tmp_path)
