"""What the process of a program says of itself: a line of JSON for each thing, on a pipe that all of them share."""

import asyncio
import json
import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pallas_runtime.probes import Probes

EVERY = 0.5
"""Seconds between two looks at what a process misses, and signs of life."""


@dataclass(frozen=True, slots=True)
class Status:
    """Says things in the name of process `number`."""

    number: int
    pipe: int

    def say(self, **facts: Any) -> None:
        """Write a line, whole: it is shorter than what a pipe takes at once."""
        os.write(self.pipe, json.dumps({"number": self.number, **facts}).encode() + b"\n")

    @contextmanager
    def making(self, agent: str) -> Generator[None]:
        """Say that an agent is made inside the block: code of the team runs then, which may never return."""
        self.say(making=agent)
        try:
            yield
        finally:
            self.say(making=None)

    async def keep_saying(self, probes: Probes) -> None:
        """Say what is missing, for ever. Whoever hears nothing knows that the process does not go on."""
        while True:
            self.say(missing=probes.missing(), notes=probes.noted())
            await asyncio.sleep(EVERY)
