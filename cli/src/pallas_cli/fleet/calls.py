"""Calls the tools of the fleet at a gateway. Its errors become readable lines."""

import json
import sys
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pallas_cli.plain_text import plain_line
from pallas_cli.refused import Refused, not_reached
from pallas_mcp_calls.model import CallFailed, Progress, Target

if TYPE_CHECKING:
    from pallas_mcp_calls.calls import AgentCalls

type Document = dict[str, Any]
type Show = Callable[[str], None]

ENDPOINT = "/teams/fleet/mcp/fleet"
_STEP = "fleet/"
"""How progress begins that names a step of a tool (`fleet/find: started`). Other progress is what the tool says."""


class FleetRefused(Refused):
    """The fleet refuses a call, with its own code and details if it has sent them."""


@dataclass
class FleetCalls:
    """The fleet at the gateway `url`."""

    url: str
    _calls: "AgentCalls"
    _target: Target

    async def ask(self, tool: str, *, show: Show | None = None, **arguments: object) -> Document:
        """Call a tool and return its answer. Arguments that are None are left out; `show` gets each line of progress.

        Raises:
            FleetRefused: the fleet refuses the call, or there is no answer.
        """

        async def told(progress: Progress) -> None:
            if show is not None and progress.message and not progress.message.startswith(_STEP):
                show(progress.message)

        given = {name: value for name, value in arguments.items() if value is not None}
        try:
            answer = await self._calls.call(self._target, tool, given, on_progress=told)
        except CallFailed as error:
            raise self._unreachable(error) from error
        document = _document(answer.text)
        if answer.failed:
            raise _refused(answer.text, document)
        if document is None:
            raise FleetRefused(f"{self.url} answers, but not as a fleet")
        return document

    def _unreachable(self, error: CallFailed) -> Refused:
        if error.code == "unreachable":
            return not_reached(f"the gateway at {self.url}")
        if error.code == "not_found":
            return FleetRefused(f"the gateway at {self.url} has no fleet")
        return FleetRefused(f"the fleet does not answer: {error}")


@asynccontextmanager
async def fleet_at(gateway: str, token: str | None) -> AsyncGenerator[FleetCalls]:
    """Connect to the fleet; `token` is the bearer for the gateway."""
    from pallas_mcp_calls.calls import AgentCalls

    base = gateway.rstrip("/")
    async with AgentCalls() as calls:
        yield FleetCalls(base, calls, Target(f"{base}{ENDPOINT}", token))


@contextmanager
def progress() -> Generator[Show]:
    """Yield a function that shows a line of progress on standard error: replaced on a terminal, else line by line."""
    if not sys.stderr.isatty():
        yield lambda line: print(plain_line(line), file=sys.stderr, flush=True)
        return
    from rich.console import Console
    from rich.text import Text

    with Console(stderr=True).status("waiting") as status:
        yield lambda line: status.update(Text(plain_line(line)))


def _document(text: str) -> Document | None:
    try:
        read: Document = json.loads(text)
    except ValueError:
        return None
    return read if text.lstrip().startswith("{") else None


def _refused(text: str, error: Document | None) -> FleetRefused:
    if error is None or not isinstance(error.get("message"), str):
        return FleetRefused(text)
    details: Document = error["details"] if isinstance(error.get("details"), dict) else {}
    more = [f"  {each}" for each in _faults(details)]
    status = f" ({details['status']})" if "status" in details else ""
    return FleetRefused(f"{error['message']}{status}", *more, word=error.get("error"), details=details)


def _faults(details: Document) -> list[str]:
    """What Coder said about single fields."""
    faults: list[Document] = details.get("validations") or []
    return [f"{each.get('field')}: {each.get('detail')}" for each in faults]
