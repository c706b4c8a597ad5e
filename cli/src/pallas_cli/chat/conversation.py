"""A conversation with one agent over MCP.

The caller keeps the history and sends it with every message; Pallas stores none. A failed turn is not added to it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from pallas_cli.refused import not_reached
from pallas_mcp_calls.model import CallAnswer, CallFailed, Progress, Target

if TYPE_CHECKING:
    from pallas_mcp_calls.calls import AgentCalls


@dataclass
class Conversation:
    """One conversation with the agent at `url`; `token` is the bearer token. An asynchronous context manager."""

    url: str
    tool: str
    token: str | None = field(default=None, repr=False)
    history: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    images: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    """Images of the next message."""
    _calls: "AgentCalls | None" = None

    async def __aenter__(self) -> Self:
        """Connect.

        Raises:
            CallFailed: `url` does not answer, or is no MCP endpoint.
        """
        from pallas_mcp_calls.calls import AgentCalls

        calls = AgentCalls()
        try:
            await calls.keeps_keys(self._target)
        except BaseException as error:
            await calls.__aexit__(type(error), error, None)
            if isinstance(error, CallFailed) and error.code == "unreachable":
                raise CallFailed(str(not_reached(self.url)), code=error.code) from error
            raise
        self._calls = calls
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Disconnect."""
        assert self._calls is not None
        await self._calls.__aexit__(kind, error, traceback)

    @property
    def _target(self) -> Target:
        return Target(self.url, self.token)

    async def switch(self, url: str, tool: str) -> None:
        """Go on with another agent.

        Raises:
            CallFailed: it cannot be called. The conversation stays with the agent that it has.
        """
        assert self._calls is not None, "a conversation is used inside `async with`"
        await self._calls.keeps_keys(Target(url, self.token))
        self.url, self.tool = url, tool

    async def ask(self, message: str, on_progress: Callable[[str], None]) -> CallAnswer:
        """Send `message` with the history and the images. `on_progress` receives each status line as it arrives.

        Raises:
            CallFailed: the call failed; a failed turn is an answer, too.
        """
        assert self._calls is not None, "a conversation is used inside `async with`"

        async def show(progress: Progress) -> None:
            if progress.message:
                on_progress(progress.message)

        images = {"images": self.images} if self.images else {}
        arguments: dict[str, Any] = {"message": message, **images}
        if self.history:
            arguments["history"] = self.history
        answer = await self._calls.call(self._target, self.tool, arguments, on_progress=show)
        if not answer.failed:
            asked = {"role": "user", "content": message, **images}
            self.history.extend((asked, {"role": "assistant", "content": answer.text}))
            self.images = []
        return answer


def agent_endpoint(gateway: str, agent: str) -> tuple[str, str]:
    """Return the MCP endpoint and the tool of `agent`, which is `NAME` or `TEAM/NAME`.

    A `gateway` address that is already an endpoint (such as an agent's dedicated port) is used unchanged.
    """
    team, _, name = agent.rpartition("/")
    base = gateway.rstrip("/")
    if "/mcp" in urlsplit(base).path:
        return base, name
    return (f"{base}/teams/{team}/mcp/{name}" if team else f"{base}/mcp/{name}"), name
