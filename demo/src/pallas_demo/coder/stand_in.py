"""The stand-in: its application, its port, and a handle for tests in the same process."""

import asyncio
import tempfile
from pathlib import Path
from typing import Literal, Self

from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from pallas_demo.coder.agent_routes import Agents
from pallas_demo.coder.answers import Refusal, no_route, refused
from pallas_demo.coder.catalogue_routes import Catalogue
from pallas_demo.coder.chat_routes import Chats
from pallas_demo.coder.faults import SIGNED_OUT, Fault, Faults
from pallas_demo.coder.listener import Listener
from pallas_demo.coder.proxy import Proxy, signed_in
from pallas_demo.coder.settings import StandInSettings
from pallas_demo.coder.task_routes import Tasks
from pallas_demo.coder.terminal import Terminal
from pallas_demo.coder.workspace_routes import Api
from pallas_demo.coder.workspaces import Workspaces
from pallas_demo.coder.world import Workspace

_OPEN = ("/api/v2/buildinfo", "/api/v2/workspaceagents/me/")


class SignedIn:
    """Lets a request of the API pass that has the token."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app, self._token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or answer 401."""
        path = scope.get("path", "")
        if not path.startswith("/api/") or path.startswith(_OPEN) or signed_in(HTTPConnection(scope), self._token):
            return await self._app(scope, receive, send)
        if scope["type"] == "websocket":
            return await send({"type": "websocket.close", "code": 1008})
        given = {b"coder-session-token", b"cookie"} & {name for name, _ in scope["headers"]}
        why = "API key is invalid." if given else 'Cookie "coder_session_token" or query parameter must be provided.'
        return await JSONResponse({"message": SIGNED_OUT, "detail": why}, 401)(scope, receive, send)


class AgentHandle:
    """What a test may know of a workspace and its program."""

    def __init__(self, workspaces: Workspaces, workspace: Workspace) -> None:
        self._all, self.workspace = workspaces, workspace
        self.folder = workspaces.folder(workspace)

    @property
    def terminal(self) -> Terminal:
        """Its terminal; KeyError when it is not on."""
        return self._all.running[self.workspace.id].terminal

    @property
    def status(self) -> Literal["running", "stable", "exited", "off"]:
        """What its AgentAPI says, or that there is none."""
        running = self._all.running.get(self.workspace.id)
        if running is None:
            return "off"
        return "exited" if running.terminal.exit_code is not None else running.terminal.status

    @property
    def prompts(self) -> list[str]:
        """The prompts that the demo agent got, in order; the first is the spec."""
        return [line.replace("\\n", "\n").replace("\\\\", "\\") for line in self._notes("prompts")]

    @property
    def escapes(self) -> int:
        """How many ESC reached the demo agent."""
        return len(self._notes("escapes"))

    async def until(self, *states: str, seconds: float = 10.0) -> None:
        """Wait until `status`, or the status of the workspace in Coder's words, is one of these."""
        async with asyncio.timeout(seconds), self._all.changed:
            await self._all.changed.wait_for(lambda: bool({self.status, self.workspace.state} & set(states)))

    def _notes(self, name: str) -> list[str]:
        path = self.folder / ".demo-agent" / name
        return path.read_text("utf-8").splitlines() if path.exists() else []


class CoderStandIn:
    """A stand-in that serves while its context is open. Its programs end with it."""

    def __init__(self, settings: StandInSettings | None = None) -> None:
        self.settings = settings or StandInSettings()
        self._listener = Listener(self.settings.port)
        self._timer: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> Self:
        """Begin to serve."""
        self._temporary = None if self.settings.folder else tempfile.TemporaryDirectory(prefix="coder-stand-in-")
        folder = Path(self._temporary.name) if self._temporary else self.settings.folder
        assert folder is not None
        self.workspaces = Workspaces(self.settings, folder.resolve(), lambda: self.url)
        self._app = Starlette(
            routes=self._routes(),
            middleware=[Middleware(Proxy, workspaces=self.workspaces), Middleware(SignedIn, token=self.token)],
            exception_handlers={Refusal: refused, 404: no_route, 405: no_route},
        )
        self._app.router.redirect_slashes = False
        self._faults = Faults(self._app, self._listener.reset)
        await self.listen()
        if self.settings.resume:
            self.workspaces.resume()
        return self

    async def __aexit__(self, *error: object) -> None:
        """End the programs, then the port."""
        self._faults.set(Fault())
        await self.stop_listening()
        await self._listener.idle()
        await self.workspaces.close()
        if self._temporary:
            self._temporary.cleanup()

    @property
    def url(self) -> str:
        """The address."""
        return self._listener.url

    @property
    def token(self) -> str:
        """The session token."""
        return self.settings.token

    @property
    def present_fault(self) -> Fault:
        """What goes wrong now."""
        return self._faults.fault

    async def listen(self) -> None:
        """Accept connections, again on the same port."""
        await self._listener.open(self._faults)

    async def stop_listening(self) -> None:
        """Refuse connections and break those that are open. Workspaces go on."""
        await self._listener.close()

    async def fault(self, fault: Fault) -> None:
        """Let something go wrong, until `heal` or for the seconds of the fault."""
        if self._timer:
            self._timer.cancel()
        self._faults.set(fault)
        self.workspaces.lag = fault.state_lag
        if fault.mode == "refuse":
            await self.stop_listening()
        else:
            await self.listen()
        if fault.seconds is not None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(
                fault.seconds, lambda: setattr(self, "_healing", loop.create_task(self.heal()))
            )

    async def heal(self) -> None:
        """Let all work again. Requests that hang are broken."""
        await self.fault(Fault())

    def agent(self, name: str) -> AgentHandle:
        """The workspace of a name; LookupError if there is none."""
        workspace = self.workspaces.world.named(name)
        if workspace is None:
            raise LookupError(f"no workspace {name!r}")
        return AgentHandle(self.workspaces, workspace)

    def _routes(self) -> list[BaseRoute]:
        api = Api(self.workspaces)
        generation = self.settings.generation
        routes = [*Catalogue(self.workspaces, lambda: self.url).routes(), *api.routes()]
        routes.append(Mount("/workspaceagents", routes=Agents(self.workspaces).routes()))
        if generation in ("both", "v2"):
            routes += Tasks(api, old=False).routes()
        if generation == "chats":
            routes += Chats(self.workspaces).routes()
        found: list[BaseRoute] = [Mount("/api/v2", routes=routes)]
        if generation in ("both", "experimental"):
            found.append(Mount("/api/experimental", routes=Tasks(api, old=True).routes()))
        if self.settings.allow_faults:
            found.append(Route("/_stand-in/fault", self._fault, methods=["PUT", "DELETE"]))
        return found

    async def _fault(self, request: Request) -> Response:
        try:
            wanted = Fault() if request.method == "DELETE" else Fault.model_validate_json(await request.body())
        except ValidationError as error:
            return JSONResponse({"message": "not a fault", "detail": str(error)}, 400)
        asyncio.get_running_loop().call_soon(lambda: setattr(self, "_healing", asyncio.create_task(self.fault(wanted))))
        return Response(status_code=204)
