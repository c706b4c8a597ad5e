"""A few teams, libraries, tokens and keys that are changed one after the other, and how each bearer is to be answered.

Cells share nothing, so what a look-up may answer follows from the changes of its own cell alone.
"""

import json
import random
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import httpx
from tests.integration.auth_resolver.bearers import Key, turn_claims
from tests.integration.stale.history import History, State
from tests.integration.stale.parts import Parts
from tests.integration.team_lifecycle.lab import ADMIN, TEAMS

_LOOKED_AT = 14
"""Bearers that are looked up: the youngest ones."""


@dataclass(eq=False)
class Team:
    """A team as it should be."""

    id: str
    workspaces: frozenset[str] = frozenset()
    active: bool = True
    rotations: int = 0


@dataclass(eq=False)
class Token:
    """An opaque token as it should be."""

    id: str
    libraries: frozenset[str]
    revoked: bool = False


@dataclass(eq=False)
class Bearer:
    """A bearer, how it is to be answered by the cell as it is, and how it was."""

    text: str
    outcome: Callable[[], str]
    history: History = field(default_factory=History)


@dataclass
class Cell:
    """One cell. `changes` counts those that were confirmed."""

    name: str
    parts: Parts
    dice: random.Random
    bearers: list[Bearer] = field(default_factory=list[Bearer])
    changes: int = 0
    libraries: dict[str, str | None] = field(default_factory=dict[str, str | None])
    teams: list[Team] = field(default_factory=list[Team])
    tokens: list[Token] = field(default_factory=list[Token])
    user_active: bool = True
    kid: str = ""
    retired: set[str] = field(default_factory=set[str])

    @property
    def user(self) -> str:
        """Whose tokens they are."""
        return f"user-{self.name}"

    @property
    def workspaces(self) -> list[str]:
        """Where libraries are."""
        return [f"ws-{self.name}-{number}" for number in range(3)]

    def looked_at(self) -> list[Bearer]:
        """The bearers that are worth a look."""
        return self.bearers[-_LOOKED_AT:]

    async def prepare(self) -> None:
        """Create the rows of the cell."""
        await self._call("POST", f"{ADMIN}/users", {"name": self.user})
        for number in range(4):
            uid, workspace = f"lib-{self.name}-{number}", self.workspaces[number % 3]
            await self._call("POST", f"{ADMIN}/libraries", {"uid": uid, "name": uid, "workspace_id": workspace})
            await self._call("PUT", f"{ADMIN}/memberships/{uid}/{self.user}/manager")
            self.libraries[uid] = workspace
        for _ in range(2):
            await self.new_team()
            await self.new_token()
        await self.new_key()

    async def work(self, enough: Callable[[], bool]) -> None:
        """Make random changes until `enough` returns True."""
        ways: list[tuple[int, Callable[[], Awaitable[None]]]] = [
            (8, self.attach),
            (6, self.move_library),
            (4, self.rotate),
            (1, self.replace_team),
            (4, self.scope_token),
            (4, self.switch_user),
            (2, self.replace_token),
            (3, self.withdraw_membership),
            (2, self.replace_key),
        ]
        weights = [weight for weight, _ in ways]
        while not enough():
            [(_, way)] = self.dice.choices(ways, weights)
            await way()

    async def attach(self) -> None:
        """Attach a team to other workspaces."""
        team = self.dice.choice(self.teams)
        chosen = frozenset(self.dice.sample(self.workspaces, self.dice.randrange(4)))
        team.workspaces = chosen
        await self._change("PUT", f"{TEAMS}{team.id}/workspaces/", {"workspace_ids": sorted(chosen)})

    async def move_library(self) -> None:
        """Put a library into another workspace, or none."""
        uid = self.dice.choice(sorted(self.libraries))
        workspace = self.dice.choice([*self.workspaces, None])
        self.libraries[uid] = workspace
        await self._change("PUT", f"{ADMIN}/libraries/{uid}/workspace", {"workspace_id": workspace})

    async def rotate(self) -> None:
        """Rotate a team's JWT."""
        team = self.dice.choice(self.teams)
        team.rotations += 1
        answer = await self._change("POST", f"{TEAMS}{team.id}/rotate/")
        self._know_team(team, answer.json()["jwt"], before="stale_jti")

    async def replace_team(self) -> None:
        """Delete a team and create another one."""
        team = self.teams.pop(self.dice.randrange(len(self.teams)))
        team.active = False
        await self._change("DELETE", f"{TEAMS}{team.id}/")
        await self.new_team()

    async def new_team(self) -> None:
        team = Team(str(uuid.UUID(int=self.dice.getrandbits(128), version=4)))
        answer = await self._call("POST", TEAMS, {"id": team.id, "name": self.name})
        if answer.status_code != 201:  # made by a call whose answer was lost, and its JWT with it
            answer = await self._call("POST", f"{TEAMS}{team.id}/rotate/")
        self.teams.append(team)
        self._know_team(team, answer.json()["jwt"], before="team_not_found")

    async def scope_token(self) -> None:
        """Replace the libraries of a token."""
        token = self.dice.choice(self.tokens)
        token.libraries = self._some_libraries()
        await self._change("PUT", f"{ADMIN}/tokens/{token.id}/libraries", self._allowed(token))

    async def switch_user(self) -> None:
        """Deactivate or activate the user."""
        self.user_active = not self.user_active
        await self._change("PATCH", f"{ADMIN}/users/{self.user}", {"active": self.user_active})

    async def replace_token(self) -> None:
        """Revoke a token and make another one."""
        token = self.tokens.pop(self.dice.randrange(len(self.tokens)))
        token.revoked = True
        await self._change("DELETE", f"{ADMIN}/tokens/{token.id}")
        await self.new_token()

    async def new_token(self) -> None:
        libraries = self._some_libraries()
        body = {"user": self.user, "name": self.name, "allowed_libraries": sorted(libraries)}
        made = (await self._call("POST", f"{ADMIN}/tokens", body)).json()
        token = Token(made["id"], libraries)
        self.tokens.append(token)
        self._know(made["token"], lambda: self._token_outcome(token), before="token_not_found")

    async def withdraw_membership(self) -> None:
        """Take a role from the user, by which tokens lose a library, and give it back, by which they win none."""
        uid = self.dice.choice(sorted(self.libraries))
        for token in self.tokens:
            token.libraries -= {uid}
        path = f"{ADMIN}/memberships/{uid}/{self.user}/manager"
        await self._change("DELETE", path, or_gone=True)
        await self._call("PUT", path)

    async def replace_key(self) -> None:
        """Retire the key of the per-turn tokens and make another one."""
        kid = self.kid
        self.retired.add(kid)
        await self._change("POST", f"{ADMIN}/keys/{kid}/retire")
        await self.new_key()

    async def new_key(self) -> None:
        """Make a key, and a token by it."""
        made = (await self._call("POST", f"{ADMIN}/keys", {"purpose": "turn"})).json()
        kid = self.kid = made["kid"]
        key = Key(kid, ("turn",), secret=bytes.fromhex(made["secret"]))
        self._know(
            key.sign(turn_claims(libs=["lib"])),
            lambda: "invalid_signature" if kid in self.retired else granted(["lib"]),
            before="invalid_signature",
        )

    def _know_team(self, team: Team, jwt: str, before: str) -> None:
        rotation = team.rotations
        self._know(jwt, lambda: self._team_outcome(team, rotation), before)

    def _know(self, text: str, outcome: Callable[[], str], before: str) -> None:
        """A bearer that has just been made; `before` is how it would have been answered until then."""
        now = time.monotonic()
        self.bearers.append(Bearer(text, outcome, History([State(before, 0.0, 0.0), State(outcome(), now, now)])))

    def _team_outcome(self, team: Team, rotation: int) -> str:
        if not team.active:
            return "team_inactive"
        if team.rotations != rotation:
            return "stale_jti"
        return granted([uid for uid, workspace in self.libraries.items() if workspace in team.workspaces])

    def _token_outcome(self, token: Token) -> str:
        if token.revoked:
            return "token_revoked"
        return granted(token.libraries) if self.user_active else "user_disabled"

    def _some_libraries(self) -> frozenset[str]:
        return frozenset(self.dice.sample(sorted(self.libraries), self.dice.randrange(5)))

    @staticmethod
    def _allowed(token: Token) -> dict[str, list[str]]:
        return {"allowed_libraries": sorted(token.libraries)}

    async def _call(self, method: str, path: str, body: object = None) -> httpx.Response:
        answer = await self.parts.call(self.dice, method, path, body)
        assert answer.is_success, answer.text
        return answer

    async def _change(self, method: str, path: str, body: object = None, *, or_gone: bool = False) -> httpx.Response:
        """Send the change that leads to the present state of the cell, and record when it was sent and confirmed.

        With `or_gone` a 404 confirms it too: what was done by a call whose answer was lost is gone by the next one.
        """
        sent, states = time.monotonic(), list[State]()
        for bearer in self.bearers:
            if (outcome := bearer.outcome()) != bearer.history.last:
                states.append(State(outcome, sent))
                bearer.history.states.append(states[-1])
        answer = await self.parts.call(self.dice, method, path, body)
        assert answer.is_success or or_gone, answer.text
        confirmed = time.monotonic()
        for state in states:
            state.confirmed = confirmed
        self.changes += 1
        return answer


def granted(libraries: "list[str] | frozenset[str]") -> str:
    """The outcome of a bearer that may read these."""
    return f"reads {json.dumps(sorted(libraries))}"
