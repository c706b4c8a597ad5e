"""A Mnemosyne that does what section 7 of the auth contract says, and nothing more.

So it has trailing slashes only, pages in HTML where something is wrong, no status of its own for deleted teams, and no
word about a team besides the fields of the contract.
"""

import asyncio
import base64
import uuid
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Literal

import jwt
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from tests.workspaces_world.served import Served

TEAMS = "/mcp_server/api/teams/"
PASSWORD = "the service's password"
_KEY = "0" * 64

type Mode = Literal[
    "well", "page", "page_after", "twice", "forgets", "redirects", "web_page", "anothers", "endless", "busy"
]
"""`page`: answers 500 in HTML; `page_after`: the same, after it has done what was asked. `twice`: does everything twice
and answers the second time. `forgets`: says that it did, but has not. `web_page`: answers 200 in HTML, undone.
`anothers`: answers with the JWT of another team. `endless`: answers without end, undone. `busy`: answers 429."""
BUSY_SECONDS = 2


@dataclass
class KnownTeam:
    """A team."""

    id: str
    name: str
    active: bool = True
    active_jti: str = ""
    workspace_ids: list[str] = field(default_factory=list[str])

    def rotate(self) -> str:
        """Make a JWT, the only one from now on (section 5.2)."""
        self.active_jti = str(uuid.uuid4())
        claims = {
            "iss": "mnemosyne",
            "aud": "mnemosyne",
            "sub": f"team:{self.id}",
            "typ": "team",
            "iat": 1_715_000_000,
            "exp": 1_976_000_000,
            "jti": self.active_jti,
        }
        return jwt.encode(claims, _KEY, algorithm="HS256")


@dataclass(frozen=True)
class Asked:
    """A request that has arrived."""

    method: str
    path: str
    body: Any
    correlation: str | None

    @property
    def what(self) -> str:
        """`POST`, `DELETE`, `PUT`, `ROTATE` or `GET`."""
        return "ROTATE" if self.path.endswith("/rotate/") else self.method


class Mnemosyne(Served):
    """The server. `mode` may be set at any time; `hold` lets a request wait after it was done."""

    def __init__(self) -> None:
        methods = ["GET", "POST", "PUT", "DELETE"]
        super().__init__(Starlette(routes=[Route("/{path:path}", self._serve, methods=methods)]))
        self.teams = dict[str, KnownTeam]()
        self.jwts = list[str]()
        self.asked = list[Asked]()
        self.mode: Mode = "well"
        self.modes = dict[str, Mode]()
        self._held = dict[tuple[str, str], tuple[asyncio.Event, asyncio.Event]]()
        self._some = asyncio.Condition()

    def counted(self) -> Counter[str]:
        """How often each request was made."""
        return Counter(one.what for one in self.asked)

    def knows(self, team_id: str) -> tuple[bool, list[str]]:
        """Whether a team is active, and its workspaces."""
        team = self.teams[team_id]
        return team.active, sorted(team.workspace_ids)

    def hold(self, what: str, team_id: str = "") -> tuple[asyncio.Event, asyncio.Event]:
        """Let the next request `what` wait, of any team or of one.

        Returns an event that is set when it was done, and one that lets it go.
        """
        held = self._held[what, team_id] = asyncio.Event(), asyncio.Event()
        return held

    def accepts(self, token: str) -> bool:
        """Whether a JWT is good: that of an active team, and its current one (section 6.3)."""
        claims = jwt.decode(token, _KEY, algorithms=["HS256"], audience="mnemosyne", options={"verify_iat": False})
        team = self.teams.get(claims["sub"].removeprefix("team:"))
        return team is not None and team.active and team.active_jti == claims["jti"]

    def snapshot(self) -> dict[str, KnownTeam]:
        """What it knows, to be set as `teams` later: then it has lost what was written since."""
        return deepcopy(self.teams)

    async def until(self, enough: Callable[[list[Asked]], bool]) -> None:
        """Wait for requests that have been answered."""
        async with asyncio.timeout(30), self._some:
            await self._some.wait_for(lambda: enough(self.asked))

    async def _serve(self, request: Request) -> Response:
        body = await request.body()
        asked = Asked(
            request.method,
            request.url.path,
            await request.json() if body else None,
            request.headers.get("x-request-id"),
        )
        answer = await self._answer(asked, request.headers.get("authorization", ""))
        team_id = asked.path.removeprefix(TEAMS).partition("/")[0]
        held = self._held.pop((asked.what, team_id), None) or self._held.pop((asked.what, ""), None)
        if held is not None:
            held[0].set()
            await held[1].wait()
        self.asked.append(asked)
        async with self._some:
            self._some.notify_all()
        return answer

    async def _answer(self, asked: Asked, authorization: str) -> Response:
        expected = base64.b64encode(f"daedalus-service:{PASSWORD}".encode()).decode()
        if authorization != f"Basic {expected}":
            return JSONResponse({"detail": "Invalid username/password."}, 401)
        if not asked.path.startswith(TEAMS) or not asked.path.endswith("/"):
            return _page(404)
        mode = self.modes.get(asked.what, self.mode)
        match mode:
            case "page":
                return _page(500)
            case "redirects":
                return Response(status_code=302, headers={"location": "/accounts/login/"})
            case "web_page":
                return _page(200)
            case "forgets":
                known = deepcopy(self.teams)
                answer = self._do(asked)
                self.teams = known
                return answer
            case "busy":
                return Response(status_code=429, headers={"retry-after": str(BUSY_SECONDS)})
            case "page_after":
                self._do(asked)
                return _page(500)
            case "twice":
                self._do(asked)
                return self._do(asked)
            case "anothers":
                return JSONResponse({"jwt": KnownTeam(str(uuid.uuid4()), "").rotate()}, 201)
            case "endless":
                return StreamingResponse(_endless(), media_type="application/json")
            case "well":
                return self._do(asked)

    def _do(self, asked: Asked) -> Response:
        match asked.method, asked.path.removeprefix(TEAMS).strip("/").split("/"):
            case "POST", [""]:
                return self._create(asked.body["id"], asked.body["name"])
            case method, [team_id, *rest] if team_id in self.teams:
                return self._of_team(method, rest, self.teams[team_id], asked.body)
            case _:
                return _page(404)

    def _create(self, team_id: str, name: str) -> Response:
        if team_id in self.teams:
            return JSONResponse({"id": team_id, "name": self.teams[team_id].name})
        team = self.teams[team_id] = KnownTeam(team_id, name)
        return JSONResponse({"id": team_id, "name": name, "jwt": self._jwt(team)}, 201)

    def _of_team(self, method: str, rest: list[str], team: KnownTeam, body: Any) -> Response:
        match method, rest:
            case "DELETE", []:
                team.active = False
                return Response(status_code=204)
            case "PUT", ["workspaces"]:
                team.workspace_ids = list(body["workspace_ids"])
                return JSONResponse({"workspace_ids": team.workspace_ids})
            case "POST", ["rotate"]:
                return JSONResponse({"jwt": self._jwt(team)})
            case "GET", []:
                shown = ("id", "name", "active", "active_jti", "workspace_ids")
                return JSONResponse({name: getattr(team, name) for name in shown})
            case _:
                return _page(405)

    def _jwt(self, team: KnownTeam) -> str:
        self.jwts.append(token := team.rotate())
        return token


async def _endless() -> AsyncGenerator[bytes]:
    while True:
        yield b" " * 65536
        await asyncio.sleep(0)


def _page(status: int) -> Response:
    return HTMLResponse(f"<!doctype html><title>{status}</title><h1>Server Error ({status})</h1>", status)
