"""The truth of a run, made over team-lifecycle's own API: libraries, ten in a workspace; teams, each in one of them."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from uuid import uuid4

import httpx
from tests.integration.team_lifecycle.lab import ADMIN, ADMIN_PASSWORD, SERVICE_PASSWORD, TEAMS

_TRIES = 5
LIBRARIES_EACH = 10
"""Libraries in a workspace, and so those that a team may read."""


@dataclass(frozen=True, slots=True)
class Team:
    """A team, its JWT and where it is attached."""

    id: str
    name: str
    jwt: str
    workspace: str
    libraries: tuple[str, ...]


class Api:
    """Calls team-lifecycle on one connection that stays open."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client

    def call(self, method: str, path: str, body: object = None) -> httpx.Response:
        """Make a call that succeeds, as the account that the path is for; what is to be tried again is."""
        account = ("daedalus-service", SERVICE_PASSWORD) if path.startswith(TEAMS) else ("admin", ADMIN_PASSWORD)
        ask = partial(self._client.request, method, path, json=body, auth=account)
        answer, tries = ask(), 1
        while answer.status_code == 503 and tries < _TRIES:
            answer, tries = ask(), tries + 1
        return answer.raise_for_status()

    def attach(self, team: Team, *workspaces: str) -> None:
        """Attach a team to these workspaces and no others."""
        self.call("PUT", f"{TEAMS}{team.id}/workspaces/", {"workspace_ids": workspaces})

    def revoke(self, token: str) -> None:
        """Revoke an opaque token."""
        self.call("DELETE", f"{ADMIN}/tokens/{token}")


@contextmanager
def api(port: int) -> Generator[Api]:
    """The API of the team-lifecycle on that port."""
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=30) as client:
        yield Api(client)


def make_libraries(lifecycle: Api, count: int) -> dict[str, list[str]]:
    """Make so many libraries; those of each workspace."""
    workspaces: dict[str, list[str]] = {}
    for number in range(count):
        uid, workspace = f"lib_{number:05}", f"ws_{number // LIBRARIES_EACH:04}"
        lifecycle.call("POST", f"{ADMIN}/libraries", {"uid": uid, "name": uid, "workspace_id": workspace})
        workspaces.setdefault(workspace, []).append(uid)
    return workspaces


def make_team(lifecycle: Api, workspace: str, libraries: list[str]) -> Team:
    """Make a team that is attached to a workspace."""
    team_id, name = str(uuid4()), f"team of {workspace}"
    made = lifecycle.call("POST", TEAMS, {"id": team_id, "name": name})
    if made.status_code != 201:  # it was made by a try that was not answered, and its JWT was lost
        made = lifecycle.call("POST", f"{TEAMS}{team_id}/rotate/")
    team = Team(team_id, name, made.json()["jwt"], workspace, tuple(libraries))
    lifecycle.attach(team, workspace)
    return team


def make_user(lifecycle: Api, name: str) -> None:
    lifecycle.call("POST", f"{ADMIN}/users", {"name": name})


def make_token(lifecycle: Api, user: str) -> str:
    """Make an opaque token; its id."""
    body: dict[str, object] = {"user": user, "name": "a token", "allowed_libraries": []}
    return lifecycle.call("POST", f"{ADMIN}/tokens", body).json()["id"]
