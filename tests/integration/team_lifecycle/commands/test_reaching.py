"""How admin commands connect to team-lifecycle, which errors they report, and which changes they ask to confirm."""

import asyncio
import json
import os
import pty
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.applications import Starlette
from tests.integration.pallas_command import Pallas
from tests.integration.team_lifecycle.lab import ADMIN_PASSWORD, Lifecycle

from pallas_runtime.http.listener import bind, listening

_RUN = "import sys; from pallas_cli.main import app; sys.argv[0] = 'pallas'; app()"
IRREVOCABLE: dict[tuple[str, ...], str] = {
    ("teams", "rotate", "t"): "the current JWT of team t becomes invalid",
    ("teams", "delete", "t"): "team t is deleted",
    ("tokens", "delete", "t"): "token t becomes invalid",
    ("keys", "retire", "k"): "every JWT signed with key k becomes invalid",
    ("libraries", "delete", "l"): "library 'l' and its documents are deleted",
    ("libraries", "revoke", "l", "u", "owner"): "tokens of 'u' that needed the role lose library 'l'",
}


async def test_the_password_is_read_from_the_data_folder_of_the_stack(pallas: Pallas) -> None:
    del pallas.environ["PALLAS_ADMIN_PASSWORD"]
    kept = pallas.folder / "data" / "secrets" / "admin-password"
    assert await pallas.refused("users", "list", "--data", "data", code=2) == [
        "pallas: the password of `admin` is missing: set PALLAS_ADMIN_PASSWORD, "
        "or pass the data folder of `pallas up` with --data (data/secrets/admin-password does not exist)"
    ]
    kept.parent.mkdir(parents=True)
    kept.write_text(ADMIN_PASSWORD)
    await pallas.done("users", "list", "--data", "data")
    (pallas.folder / "data").rename(pallas.folder / ".pallas")
    await pallas.done("users", "list")


async def test_a_wrong_password_is_reported_in_one_line_without_repeating_it(pallas: Pallas) -> None:
    pallas.environ["PALLAS_ADMIN_PASSWORD"] = "hunter2"
    refusal = await pallas.refused("users", "list")
    assert refusal == ["pallas: the password of the account `admin` is wrong (PALLAS_ADMIN_PASSWORD, --data)"]


@pytest.mark.parametrize(
    ("url", "error"),
    [
        ("http://127.0.0.1:1", "no connection"),
        ("127.0.0.1", "the address is not valid"),
        ("http://host:port", "the address is not valid"),
    ],
)
async def test_an_unreachable_service_is_reported_in_one_line(pallas: Pallas, url: str, error: str) -> None:
    assert await pallas.refused("users", "list", "--url", url, code=3) == [
        f"pallas: team-lifecycle at {url} cannot be reached: {error}; is `pallas up` running? "
        "(--url and --data select another stack)"
    ]


async def test_the_url_of_another_service_is_reported(pallas: Pallas) -> None:
    listener = bind("127.0.0.1", 0)
    base = f"http://127.0.0.1:{listener.getsockname()[1]}"
    async with listening(Starlette(), listener, drain_seconds=1):
        refusal = await pallas.refused("users", "list", "--url", base)
    assert refusal == [f"pallas: {base}/ answers, but it is not team-lifecycle"]


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a?b", "a b", "é"])
async def test_an_invalid_id_is_refused_by_every_command(pallas: Pallas, name: str) -> None:
    for words in (("users", "deactivate", name), ("libraries", "delete", name, "--yes")):
        assert await pallas.refused(*words) == [f"pallas: {name!r} is not a valid name or id"]


@pytest.mark.parametrize("words", IRREVOCABLE, ids=" ".join)
async def test_irrevocable_commands_need_yes_without_a_terminal(pallas: Pallas, words: tuple[str, ...]) -> None:
    sentence = f"to confirm that {IRREVOCABLE[words]}, pass --yes: it cannot be undone"
    assert await pallas.refused(*words, code=2) == [f"pallas: {sentence}"]
    [document] = await pallas.refused(*words, "--json", code=2)
    assert json.loads(document) == {"code": "usage", "message": sentence, "details": {}}


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    """Both ends of a terminal: the person's and the command's."""
    ends = pty.openpty()
    yield ends
    for end in ends:
        os.close(end)


@pytest.mark.parametrize(("typed", "done"), [("y", True), ("n", False), ("", False)])
async def test_on_a_terminal_an_irrevocable_command_runs_only_after_y(
    pallas: Pallas, lifecycle: Lifecycle, terminal: tuple[int, int], tmp_path: Path, typed: str, done: bool
) -> None:
    team, _ = await lifecycle.team()
    os.write(terminal[0], f"{typed}\n".encode())
    if not typed:
        os.write(terminal[0], b"\x04")  # end of input
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _RUN, "teams", "delete", team),
        stdin=terminal[1],
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=tmp_path,
        env={**os.environ, **pallas.environ},
    )
    _, err = await process.communicate()
    assert f"If you continue, team {team} is deleted. It cannot be undone.\nContinue? [y/N]:" in err.decode()
    assert process.returncode == (0 if done else 1)
    assert (await pallas.done("teams", "show", team, "--json")).json["active"] is not done
