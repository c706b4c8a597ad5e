"""Runs all checks and prints what they found."""

import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from pallas_cli.agents import check
from pallas_cli.doctor.broker import check_broker, greeting
from pallas_cli.doctor.checks import Finding, check_machine, check_services, left_out, ok, wrong
from pallas_cli.kept_addresses import find_address
from pallas_cli.parts import DEFAULTS, Part
from pallas_cli.plain_text import plain_line, print_plain
from pallas_cli.refused import Refused
from pallas_cli.waiting import shown

_MARKS = {"ok": "ok      ", "warning": "warning ", "wrong": "WRONG   ", "left out": "-       "}


def examine(
    data: Path, given: Mapping[Part, str | None], teams: Sequence[Path], port_base: int | None, *, as_json: bool
) -> bool:
    """Check everything and print the findings. Returns whether nothing is wrong."""
    with shown("examining"):
        found = asyncio.run(_examined(data, given, teams, port_base))
    if as_json:
        print(json.dumps({"ok": _fine(found), "findings": [each.as_json() for each in found]}, indent=2))
        return _fine(found)
    for each in found:
        print_plain(plain_line(f"{_MARKS[each.state]}{each.check}: {each.said}"))
        if each.advice:
            print_plain(plain_line(f"          do: {each.advice}"))
    print_plain(_sum(found))
    return _fine(found)


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
