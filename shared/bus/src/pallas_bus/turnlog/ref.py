"""The identity of a turn: the ids that its subjects in the log are made of."""

from dataclasses import dataclass

from pallas_contracts.contract import Template
from pallas_contracts.turns import TurnRequested


@dataclass(frozen=True, slots=True)
class TurnRef:
    """Where a turn lives in the log."""

    team: str
    agent: str
    turn_id: str

    @classmethod
    def of(cls, request: TurnRequested) -> "TurnRef":
        """The address of a requested turn."""
        return cls(request.team, request.agent, request.turn_id)

    def on(self, template: Template) -> str:
        """The turn's subject of that contract."""
        return template.subject(team=self.team, agent=self.agent, turn=self.turn_id)

    @property
    def facts(self) -> dict[str, str]:
        """How log lines name the turn."""
        return {"team": self.team, "agent": self.agent, "turn": self.turn_id}

    @property
    def everything(self) -> str:
        """The subject filter that matches all of the turn's messages."""
        return f"pallas.v1.turn.*.{self.team}.{self.agent}.{self.turn_id}"
