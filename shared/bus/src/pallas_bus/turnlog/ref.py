"""The identity of a turn: the ids that its subjects in the log are made of, and the shard that has it."""

from dataclasses import dataclass, field, replace

from pallas_contracts.catalog import TURN_LOG, TURN_QUEUE
from pallas_contracts.contract import Template
from pallas_contracts.shards import name_in, prefix_of, template_in
from pallas_contracts.turns import TurnRequested


@dataclass(frozen=True, slots=True)
class TurnRef:
    """The team, agent and id of a turn, and where it is. Two that differ only in the shard are equal."""

    team: str
    agent: str
    turn_id: str
    shard: int = field(default=0, compare=False)

    @classmethod
    def of(cls, request: TurnRequested) -> "TurnRef":
        """The identity of a requested turn."""
        return cls(request.team, request.agent, request.turn_id, request.shard)

    def on(self, template: Template) -> str:
        """The turn's subject for a template of the catalogue."""
        return template_in(template, self.shard).subject(team=self.team, agent=self.agent, turn=self.turn_id)

    def at(self, shard: int) -> "TurnRef":
        """The same turn in another shard."""
        return replace(self, shard=shard)

    @property
    def log(self) -> str:
        """The name of the stream with the log of the turn."""
        return name_in(TURN_LOG, self.shard)

    @property
    def queue(self) -> str:
        """The name of the stream with the queue of the turn."""
        return name_in(TURN_QUEUE, self.shard)

    @property
    def facts(self) -> dict[str, str]:
        """The fields that name the turn in log lines."""
        return {"team": self.team, "agent": self.agent, "turn": self.turn_id}

    @property
    def everything(self) -> str:
        """The subject filter that matches all messages of the turn in the log."""
        return f"{prefix_of(self.shard)}turn.*.{self.team}.{self.agent}.{self.turn_id}"
