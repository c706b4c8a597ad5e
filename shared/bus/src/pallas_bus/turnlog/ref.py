"""The identity of a turn: the ids that its subjects in the log are made of."""

from dataclasses import dataclass
from typing import NamedTuple

from pallas_contracts.contract import Template
from pallas_contracts.turns import TurnRequested


@dataclass(frozen=True, slots=True)
class TurnRef:
    """The team, agent and id of a turn."""

    team: str
    agent: str
    turn_id: str

    @classmethod
    def of(cls, request: TurnRequested) -> "TurnRef":
        """The identity of a requested turn."""
        return cls(request.team, request.agent, request.turn_id)

    def on(self, template: Template) -> str:
        """The turn's subject for a template of the catalogue."""
        return template.subject(team=self.team, agent=self.agent, turn=self.turn_id)

    @property
    def facts(self) -> dict[str, str]:
        """The fields that name the turn in log lines."""
        return {"team": self.team, "agent": self.agent, "turn": self.turn_id}

    @property
    def everything(self) -> str:
        """The subject filter that matches all messages of the turn in the log."""
        return f"pallas.v1.turn.*.{self.team}.{self.agent}.{self.turn_id}"


class Cursor(NamedTuple):
    """How far a turn has been read: an attempt and the number of an event in it; 0 means before the first."""

    attempt: int = 0
    event: int = 0


BEGINNING = Cursor()
"""Nothing has been read."""
