"""A client of AgentAPI (its OpenAPI document 0.12.1)."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import httpx2
from pydantic import AfterValidator, AliasChoices, AwareDatetime, BaseModel, ConfigDict, Field, TypeAdapter

from fleet.reaching.http import Answer, Http
from fleet.reaching.peer import NotSent, Peer
from fleet.reaching.reading import read_json, read_part
from pallas_contracts.errors import Conflict, Rejected, Unavailable

LARGEST_EVENT = 4 * 1024 * 1024
GATHER = 0.25
"""Seconds: an event is read at most so much later than it has come."""

_BUSY = "waiting for user input"
_UNNOTICED = "failed to wait for processing to start"
_BAD_HOST = b"Invalid host header"
_BLANK = "must not be empty"


def _plain(text: str) -> str:
    """A text without the spaces with which a terminal fills its lines."""
    return "\n".join(line.rstrip() for line in text.split("\n")).rstrip()


class _Read(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", validate_by_name=True, validate_by_alias=True)


class Said(_Read):
    """A message of the conversation as it is now; the agent's last one grows while it works."""

    id: int
    role: Literal["user", "agent"]
    text: Annotated[str, AfterValidator(_plain)] = Field(validation_alias=AliasChoices("content", "message"))
    at: AwareDatetime = Field(validation_alias="time")


class Status(_Read):
    """Whether the agent works: `stable` means that it waits for input."""

    status: Literal["running", "stable"]


class Trouble(_Read):
    """An error that the agent reports."""

    message: str
    level: Literal["error", "warning"] = "error"


class _Messages(_Read):
    messages: list[Said] | None = None


class _Done(_Read):
    ok: Literal[True]


class _ErrorPart(_Read):
    message: str = ""


class _Problem(_Read):
    detail: str = ""
    errors: list[_ErrorPart] | None = None


_STATUS, _MESSAGES, _DONE, _PROBLEM = (TypeAdapter[Any](it) for it in (Status, _Messages, _Done, _Problem))
_EVENTS: dict[str, TypeAdapter[Any]] = {
    "message_update": TypeAdapter(Said),
    "status_change": _STATUS,
    "agent_error": TypeAdapter(Trouble),
}


@dataclass(frozen=True, slots=True)
class Terminal:
    """The terminal at `url`, which ends with a slash. `whose` names it in errors.

    Every method raises:
        Unavailable: it cannot be reached, or answers nonsense (`terminal_unavailable`).
    """

    http: Http
    url: httpx2.URL
    whose: str

    async def status(self) -> Literal["running", "stable"]:
        """Whether the agent works."""
        return (await self._get("status", _STATUS)).status

    async def messages(self) -> list[Said]:
        """The whole conversation, in order."""
        return sorted((await self._get("messages", _MESSAGES)).messages or (), key=lambda said: said.id)

    async def say(self, text: str) -> None:
        """Type a prompt, and wait until the agent begins with it.

        Raises:
            Conflict: the agent works (`terminal_busy`); nothing was typed.
            Rejected: the text is blank.
            Unavailable: besides the above, nobody knows whether it was typed (`uncertain`), or whether the agent has
                noticed that it was (`typed_unnoticed`).
        """
        peer = self._peer()
        try:
            answer = await self.http.send(peer, "POST", self._at("message"), body={"type": "user", "content": text})
            if answer.status < 300:
                read_json(peer, answer, _DONE)
                return
        except NotSent:
            raise
        except Unavailable as error:
            raise Unavailable(error.message, code="uncertain", **error.facts) from error
        raise self._not_typed(peer, answer)

    async def press(self, keys: str) -> None:
        """Press keys, which are no message of the conversation."""
        peer = self._peer()
        answer = await self.http.send(peer, "POST", self._at("message"), body={"type": "raw", "content": keys})
        self._read(peer, answer, _DONE)

    async def events(self, *, gather: float = GATHER) -> AsyncGenerator[Said | Status | Trouble]:
        """What happens from now on, after the conversation and the status as they are. Ends when the connection does.

        Those that come within `gather` seconds are read together. Other kinds and unreadable events are left out.
        """
        peer = self._peer()
        answer = await self.http.stream(peer, self._at("events"), gather=gather)
        try:
            if not self.http.has_events(answer):
                raise _refused(peer, answer.status_code)
            async for event in httpx2.EventSource(answer, max_event_size=LARGEST_EVENT):
                known = _EVENTS.get(event.event)
                if known is not None and (read := read_part(known, event.data)) is not None:
                    yield read
        except httpx2.TransportError:
            return
        finally:
            await answer.aclose()

    async def _get(self, path: str, kind: TypeAdapter[Any]) -> Any:
        peer = self._peer()
        return self._read(peer, await self.http.send(peer, "GET", self._at(path)), kind)

    def _read(self, peer: Peer, answer: Answer, kind: TypeAdapter[Any]) -> Any:
        if answer.status == 400 and _BAD_HOST in answer.body:
            raise peer.unusable("host", "does not allow its host name (AGENTAPI_ALLOWED_HOSTS)", status=400)
        if answer.status != 200:
            raise _refused(peer, answer.status)
        return read_json(peer, answer, kind)

    def _not_typed(self, peer: Peer, answer: Answer) -> Conflict | Rejected | Unavailable:
        problem: _Problem = read_part(_PROBLEM, answer.body) or _Problem()
        why = " ".join([problem.detail, *(part.message for part in problem.errors or ())])
        if _BUSY in why:
            return Conflict(f"{peer.name} is working and takes no prompt.", code="terminal_busy")
        if _BLANK in why:
            return Rejected("The prompt is empty.", code="empty_prompt")
        refused = _refused(peer, answer.status)
        if answer.status < 500:
            return refused
        if _UNNOTICED in why:
            return Unavailable(f"{peer.name} shows no sign of the prompt.", code="typed_unnoticed", **refused.facts)
        return Unavailable(refused.message, code="uncertain", **refused.facts)

    def _at(self, path: str) -> httpx2.URL:
        return self.url.join(path)

    def _peer(self) -> Peer:
        return Peer(f"The terminal of {self.whose}", "terminal_unavailable")


def _refused(peer: Peer, status: int) -> Unavailable:
    if status in (401, 403) or 300 <= status < 400:
        return peer.unusable(
            "unauthorized", f"answers with HTTP status {status}: it is not open to our token", status=status
        )
    if status == 429:  # Coder's proxy says so, and nothing about the terminal
        coder = Peer("Coder", "coder_unavailable")
        return coder.unusable("too_many", "refuses more requests for now (HTTP status 429)", status=status)
    return peer.unusable("status", f"answers with HTTP status {status}", status=status)
