"""`pallas doctor`: what is wrong with an installation, and what to do about it."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer

from pallas_cli.agents import check
from pallas_cli.broker import DEFAULT_DATA, AsJson, Data, NatsUrl
from pallas_cli.command import command
from pallas_cli.doctor.broker import check_broker, greeting
from pallas_cli.doctor.checks import Finding, check_machine, check_services, left_out, ok, wrong
from pallas_cli.kept_addresses import find_address
from pallas_cli.options import GatewayUrl
from pallas_cli.parts import DEFAULTS, Part
from pallas_cli.plain_text import plain_line, print_answer
from pallas_cli.refused import Refused
from pallas_cli.waiting import shown

app = typer.Typer()


@command(app)
def doctor(
    teams: Annotated[
        list[Path] | None,
        typer.Option(help="Team folder to check, too. May be repeated. [default: this folder, if it is one]"),
    ] = None,
    port_base: Annotated[
        int | None, typer.Option(help="First port of the stack, as for `pallas up`. [default: that of the data folder]")
    ] = None,
    url: GatewayUrl = None,
    nats: NatsUrl = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Find out what is wrong with an installation.

    It checks the programs, the data folder, ports, disk, broker, services, workers and team folders: of `pallas up`
    and, with a context or addresses in the environment, of any platform. Exit code 1 if anything is wrong.
    """
    with shown("examining"):
        found = asyncio.run(_examined(data, {"gateway": url, "nats": nats}, teams or (), port_base))
    lines = [plain_line(line) for each in found for line in each.as_lines()]
    answer = {"ok": _fine(found), "findings": [each.as_json() for each in found]}
    print_answer(answer, "\n".join([*lines, _sum(found)]), as_json=as_json)
    raise typer.Exit(0 if _fine(found) else 1)


def _fine(found: Sequence[Finding]) -> bool:
    return not any(each.state == "wrong" for each in found)


def _sum(found: Sequence[Finding]) -> str:
    wrong_ones, warnings = (sum(each.state == state for each in found) for state in ("wrong", "warning"))
    said = {0: "Nothing is wrong.", 1: "One thing is wrong."}.get(wrong_ones, f"{wrong_ones} things are wrong.")
    more = {0: "", 1: " One warning."}.get(warnings, f" {warnings} warnings.")
    return said + more


async def _examined(
    data: Path, given: Mapping[Part, str | None], teams: Sequence[Path], port_base: int | None
) -> list[Finding]:
    nats = find_address(given.get("nats") or _variable("nats"), data, "nats")
    answers = await greeting(nats) is not None
    base = (
        port_base or urlsplit(_address(None, data, "registry") or "").port or urlsplit(DEFAULTS["registry"]).port or 0
    )
    found = [*check_machine(data, base, stack_answers=answers), *_teams(teams)]
    found += [finding async for finding in check_broker(nats, data)]
    services: list[Part] = [part for part in DEFAULTS if part not in ("nats", "postgres")]
    addresses = {part: _address(given.get(part) or _variable(part), data, part) for part in services}
    return found + await check_services(addresses, broker_answers=answers)


def _variable(part: Part) -> str | None:
    return os.environ.get(f"PALLAS_{part.upper()}_URL")


def _address(given: str | None, data: Path, part: Part) -> str | None:
    """The address of a service; None: the stack, or the context, has none."""
    try:
        return find_address(given, data, part)
    except Refused:
        return None


def _teams(folders: Sequence[Path]) -> list[Finding]:
    here = Path()
    wanted = folders or ([here] if (here / "agents.yaml").is_file() else [])
    if not wanted:
        return [left_out("team folders", "none is named: pass --teams DIR")]
    result = check(wanted)
    if result.valid:
        return [ok("team folders", ", ".join(team.name for team in result.teams))]
    advice = f"pallas agents validate {' '.join(map(str, wanted))}"
    return [wrong("team folders", str(fault), advice) for fault in result.found]
