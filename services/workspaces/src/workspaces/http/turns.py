"""Routes of turns: the list, one turn as a waterfall, executing it again, two side by side, and what happens live."""

from collections.abc import AsyncGenerator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, override

from fastapi import APIRouter, Depends, Path, Query
from pydantic import AfterValidator, AwareDatetime, Field, ValidationInfo, field_validator

from pallas_contracts.ids import Token
from pallas_turns.history.turn_list import TurnFilter
from pallas_turns.history.turns import State
from workspaces.answers import Comparison, Replayed, TurnDay, TurnModels, TurnPage, TurnView
from workspaces.http.event_stream import EventStream, event_of
from workspaces.http.fields import Body
from workspaces.http.parts import Parts, Sender
from workspaces.turns.again import Again
from workspaces.turns.live import LiveTurns
from workspaces.turns.log import TurnLog

MOST_TURNS = 200
_EARLIEST, _LATEST = datetime(2000, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)


type TurnName = Annotated[Token, Path(description="Id of a turn")]


def _in_range(moment: datetime) -> datetime:
    if not _EARLIEST <= moment <= _LATEST:
        raise ValueError("must be between the years 2000 and 2200")
    return moment


type Moment = Annotated[AwareDatetime, AfterValidator(_in_range)]
type Word = Annotated[str, Field(min_length=1, max_length=256)]


class Wanted(Body):
    """Which turns are wanted; `caller` is a part of `type:id`, `code` that of a failure."""

    team: Token | None = None
    agent: Token | None = None
    caller: Word | None = None
    state: State | None = None
    code: Annotated[str, Field(pattern=r"^[a-z_]{1,64}$")] | None = None
    least_seconds: Annotated[float, Field(ge=0, le=2_592_000, allow_inf_nan=False)] | None = None

    def filter(self) -> TurnFilter:
        """The same for the log."""
        code, least = self.code, self.least_seconds
        return TurnFilter(self.team, self.agent, self.caller, self.state, code=code, least_seconds=least)


class Listed(Wanted):
    """Which turns are wanted, from when to when, and how many."""

    since: Moment | None = None
    until: Moment | None = None
    limit: int = Field(50, ge=1, le=MOST_TURNS)

    @override
    def filter(self) -> TurnFilter:
        return replace(super().filter(), since=self.since, until=self.until)

    @field_validator("until")
    @classmethod
    def not_before_since(cls, until: datetime | None, given: ValidationInfo) -> datetime | None:
        """The period does not end before it begins."""
        since = given.data.get("since")
        if until is not None and since is not None and until < since:
            raise ValueError("must not be before since")
        return until


class Changes(Body):
    """What is different when a turn is executed again; `confirmed`: tools may be called again."""

    model: Annotated[str, Field(max_length=200, pattern=r"^[!-~]+$")] | None = None
    agent: Token | None = None
    confirmed: bool = False


def turns_router(parts: Parts) -> APIRouter:
    """The routes. Without a broker all answer 503 (`no_broker`)."""
    router = APIRouter(prefix="/turns", tags=["turns"])
    broker = parts.broker
    log, again, live = TurnLog(broker, parts.engine), Again(broker), LiveTurns(broker)

    async def at_hand() -> None:
        broker.need()

    @router.get("")
    async def list_turns(wanted: Annotated[Listed, Query()]) -> TurnPage:
        """List turns, the latest first: those that wait or run by their request, others by their end."""
        return await log.page(wanted.filter(), limit=wanted.limit)

    async def events(wanted: Wanted) -> AsyncGenerator[bytes]:
        async with live.follow(wanted.filter(), parts.stopping) as lines:
            yield event_of("ready")
            async for line in lines:
                yield event_of("turn", line.model_dump_json()) if line is not None else event_of("resync")
        yield event_of("bye")

    @router.get("/events", response_class=EventStream, dependencies=[Depends(at_hand)])
    async def follow_turns(wanted: Annotated[Wanted, Query()]) -> EventStream:
        """Turns as they change (`turn`), from `ready` on. `resync`: load the list again. `bye`: connect again."""
        return EventStream(events(wanted))

    @router.get("/models")
    async def list_models() -> TurnModels:
        """The models and agents that a turn can be executed with."""
        return await again.models()

    @router.get("/day")
    async def show_day() -> TurnDay:
        """The slowest, the dearest and the failing turns of the last day."""
        return await log.day()

    @router.get("/{turn}")
    async def show_turn(turn: TurnName, content: bool = False) -> TurnView:
        """One turn as a waterfall; with `content`, also what was asked and answered, while it is stored."""
        return await log.show(turn, content=content)

    @router.post("/{turn}/again", status_code=202)
    async def execute_again(turn: TurnName, changes: Changes, who: Sender) -> Replayed:
        """Execute again what the turn was asked, as a new turn. The old one does not change."""
        return await again.execute(who, turn, model=changes.model, agent=changes.agent, confirmed=changes.confirmed)

    @router.get("/{turn}/compare/{other}")
    async def compare_turns(turn: TurnName, other: TurnName) -> Comparison:
        """Two turns with their contents, side by side."""
        return await log.compare(turn, other)

    return router
