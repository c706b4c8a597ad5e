"""A small fleet without Coder (`PALLAS_FLEET_LOCAL`): the stand-in for Coder runs real coding agents on this machine.

These are settings of `pallas up`. The service knows of a Coder at an address, and not what runs there.
"""

import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pallas_cli.refused import WrongUsage

LOCAL, PROGRAM, PASS = "PALLAS_FLEET_LOCAL", "PALLAS_FLEET_PROGRAM", "PALLAS_FLEET_PASS"


@dataclass(frozen=True, slots=True)
class LocalFleet:
    """The command of every agent, by default the demo agent, and the variables that it gets of this process's."""

    command: tuple[str, ...] = ()
    passed: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    @property
    def arguments(self) -> tuple[str, ...]:
        """What the stand-in is told. The values of variables are not in it."""
        if not self.command:
            return ()
        passed = [part for name in self.passed for part in ("--pass", name)]
        return "--program", shlex.join(self.command), *passed


def local_fleet(environ: Mapping[str, str]) -> LocalFleet | None:
    """Read `PALLAS_FLEET_LOCAL`, `PALLAS_FLEET_PROGRAM` and `PALLAS_FLEET_PASS`; None: no local fleet is wanted.

    Raises:
        Refused: a variable is invalid, or does not go with another one.
    """
    wanted = (environ.get(LOCAL) or "false").lower()
    if wanted not in ("true", "false"):
        raise WrongUsage(f"{LOCAL} has to be true or false")
    program, names = environ.get(PROGRAM) or "", environ.get(PASS) or ""
    if wanted == "false":
        if program or names:
            raise WrongUsage(f"{PROGRAM if program else PASS} needs {LOCAL}=true")
        return None
    if environ.get("PALLAS_CODER_URL"):
        raise WrongUsage(f"{LOCAL} runs agents without a Coder, and PALLAS_CODER_URL names one: set only one of them")
    return LocalFleet(_command(program), _passed(names, environ))


def _command(program: str) -> tuple[str, ...]:
    """The words of a program, which is run in other folders."""
    try:
        words = shlex.split(program)
    except ValueError as error:
        raise WrongUsage(f"{PROGRAM} is no command: {error}") from None
    if not words:
        return ()
    found = shutil.which(words[0])
    if found is None:
        raise WrongUsage(f"{PROGRAM}: there is no program {words[0]!r}")
    return (str(Path(found).absolute()), *words[1:])


def _passed(names: str, environ: Mapping[str, str]) -> dict[str, str]:
    wanted = [name for name in map(str.strip, names.split(",")) if name]
    missing = [name for name in wanted if name not in environ]
    if missing:
        raise WrongUsage(f"{PASS}: {', '.join(missing)} is not set")
    return {name: environ[name] for name in wanted}
