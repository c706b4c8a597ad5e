"""What the answers of a Mnemosyne mean that is not ours."""

from typing import Any

import httpx2
import pytest

from workspaces.mnemosyne.reading import (
    Created,
    MnemosyneAway,
    MnemosyneRefused,
    NoSuchTeam,
    Rotated,
    Team,
    TeamGone,
    Workspaces,
    check_status,
    read,
)

HTML = {"content-type": "text/html; charset=utf-8"}


def answer(status: int = 200, body: Any = None, **headers: str) -> httpx2.Response:
    """An answer with a JSON body."""
    return httpx2.Response(status, json=body, headers=headers)


@pytest.mark.parametrize(
    ("status", "error", "says"),
    [
        (301, MnemosyneRefused, "PALLAS_TEAMS_URL"),
        (302, MnemosyneRefused, "PALLAS_TEAMS_URL"),
        (400, MnemosyneRefused, "status 400"),
        (401, MnemosyneRefused, "PALLAS_TEAMS_PASSWORD"),
        (403, MnemosyneRefused, "PALLAS_TEAMS_PASSWORD"),
        (404, NoSuchTeam, "does not know"),
        (408, MnemosyneAway, "status 408"),
        (409, TeamGone, "deleted"),
        (410, TeamGone, "deleted"),
        (429, MnemosyneAway, "status 429"),
        (500, MnemosyneAway, "status 500"),
        (503, MnemosyneAway, "status 503"),
    ],
)
def test_a_status_is_a_clear_sentence(status: int, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says) as raised:
        check_status(answer(status, {"detail": "secret"}), named=True)
    assert "secret" not in str(raised.value)
    assert type(raised.value) is error


def test_an_unknown_path_is_not_an_unknown_team() -> None:
    with pytest.raises(MnemosyneRefused, match="there is no /mcp_server/api/teams/") as raised:
        check_status(answer(404), named=False)
    assert not isinstance(raised.value, NoSuchTeam)


def test_a_page_is_told_apart() -> None:
    with pytest.raises(MnemosyneAway, match="failed with a web page"):
        check_status(httpx2.Response(500, text="<h1>Server Error</h1>", headers=HTML), named=True)
    with pytest.raises(MnemosyneAway, match="a web page instead of JSON"):
        read(httpx2.Response(200, text="<h1>Log in</h1>", headers=HTML), Team)


@pytest.mark.parametrize("body", [{"id": "i", "name": "n"}, {"id": "i", "jwt": None}, {"jwt": ""}])
def test_an_existing_team_has_no_jwt(body: Any) -> None:
    assert read(answer(200, body), Created).jwt in (None, "")


@pytest.mark.parametrize(
    ("shape", "body"),
    [
        (Created, {"jwt": "a b"}),
        (Created, {"jwt": "a\r\nb"}),
        (Created, {"jwt": "x" * 9000}),
        (Rotated, {}),
        (Rotated, {"jwt": 7}),
        (Workspaces, {"workspace_ids": "ws"}),
        (Workspaces, {"workspace_ids": [1]}),
        (Team, {"active": "perhaps", "workspace_ids": []}),
        (Team, {"active": True}),
        (Team, {"active": True, "name": "a\0", "workspace_ids": []}),
        (Team, {"active": True, "workspace_ids": ["a\0"]}),
        (Workspaces, {"workspace_ids": ["a\nb", "\0"]}),
        (Team, []),
        (Team, None),
    ],
)
def test_anything_else_is_odd_and_is_not_repeated(shape: type[Any], body: Any) -> None:
    with pytest.raises(MnemosyneAway, match="Mnemosyne answered") as raised:
        read(answer(200, body), shape)
    assert raised.value.code == "mnemosyne_odd"
    assert "a b" not in str(raised.value)
    assert "." not in str(raised.value), "only the field is named"
