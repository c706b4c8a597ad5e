"""The programs of a storm: each is made from its call alone, with what it computes and the calls of tools in it.

A call of a tool writes its effect down as `{key}.{place}`, so the effects of each can be counted.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from tests.chaos.script import ScriptedCall

from pallas_contracts.ids import child_id

_OPTIONS = ("retry: 2, delay: 50ms", "timeout: 60s, retry: 1", "fallback: {{ number: {value} + 1 }}")
_LATE = "timeout: 50ms, fallback: {{ number: {value} + 1 }}"
_LATE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Node:
    """A call of a tool in a program.

    `taken`: whether it stands in a branch that is taken. `needed`: whether its answer is; not that of a call whose time
    limit is too short, or that has a fallback. `tries` is the number of turns that it may make.
    """

    place: str
    agent: str
    taken: bool = True
    needed: bool = True
    tries: int = 1

    def turns(self, execution: str) -> list[str]:
        """The ids of the turns that it may make."""
        return [child_id(execution, f"{self.place}.{number}") for number in range(1, self.tries + 1)]


@dataclass(frozen=True)
class Program:
    """A program and what it computes."""

    source: str
    nodes: Sequence[Node]
    outputs: dict[str, int]


def program_of(call: ScriptedCall) -> Program:
    """The program of a call: about `2.5 * call.steps` nodes, which take about `call.seconds` together."""
    return _Writer(call, Random(f"{call.key} {call.seconds}")).written()


class _Writer:
    """Writes a program block by block. Each block makes the next variable out of the last one."""

    def __init__(self, call: ScriptedCall, random: Random) -> None:
        self._key, self._random, self._size = call.key, random, round(2.5 * call.steps)
        self._seconds = round(min(0.5, call.seconds / self._size), 2)
        self._lines = ["in key: String", "v0 = 1"]
        self._value, self._variables, self._calls = 1, 0, 0
        self._nodes: list[Node] = []

    def written(self) -> Program:
        blocks = (self._step, self._step, self._careful, self._fan_out, self._together, self._branch)
        while len(self._nodes) < self._size:
            self._random.choice(blocks)()
        source = "\n".join([*self._lines, f"total = {self._last}", "out total"])
        return Program(source, tuple(self._nodes), {"total": self._value})

    @property
    def _last(self) -> str:
        return f"v{self._variables}"

    def _assign(self, text: str, value: int) -> None:
        self._variables, self._value = self._variables + 1, value
        self._lines.append(f"{self._last} = {text}")

    def _step(self) -> None:
        agent = self._random.choice(("ledger", "ledger", "notes"))
        self._assign(f"{self._add(agent, self._last)}.number", self._value + 1)

    def _careful(self) -> None:
        """A call with options, or one that is too late for its time limit."""
        if self._random.random() < 0.3:
            call, options = self._add("notes", self._last, seconds=_LATE_SECONDS, needed=False), _LATE
        else:
            options = self._random.choice(_OPTIONS)
            tries = 3 if "retry: 2" in options else 2 if "retry: 1" in options else 1
            call = self._add("notes", self._last, needed="fallback" not in options, tries=tries)
        self._assign(f"({call} with {options.format(value=self._last)}).number", self._value + 1)

    def _fan_out(self) -> None:
        """A call for each item of a list."""
        width, agent = self._random.randint(2, 6), self._random.choice(("ledger", "notes"))
        self._calls += 2
        each = self._add(agent, "i", items=width)
        items = ", ".join(map(str, range(width)))
        self._assign(
            f"list-sum(map([{items}], (i) => {each}.number)) + {self._last}", self._value + sum(range(1, width + 1))
        )

    def _together(self) -> None:
        """Calls of several agents that need nothing of each other."""
        parts, value = [self._last], self._value
        for agent in self._random.sample(("meter", "gauge", "teller", "ledger"), self._random.randint(2, 3)):
            match agent:
                case "ledger":
                    parts.append(f"{self._add(agent, '1')}.number")
                    value += 2
                case "teller":
                    parts.append(self._told())
                    value += 1
                case _:
                    text, length = self._measured(agent)
                    parts.append(text)
                    value += length
        self._assign(" + ".join(parts), value)

    def _branch(self) -> None:
        """Two calls of which one is made."""
        taken = self._random.random() < 0.5
        limit = self._value - 1 if taken else self._value
        then = self._add("ledger", self._last, taken=taken)
        otherwise = self._add("notes", self._last, taken=not taken)
        self._assign(f"if ({self._last} > {limit}) {then}.number else {otherwise}.number", self._value + 1)

    def _add(
        self,
        agent: str,
        number: str,
        *,
        seconds: float | None = None,
        items: int | None = None,
        taken: bool = True,
        needed: bool = True,
        tries: int = 1,
    ) -> str:
        """A call that adds one to a number; one for each of so many items `i` of a list."""
        self._calls += 1
        place = str(self._calls)
        places = [place] if items is None else [f"{place}.{item}" for item in range(items)]
        self._nodes += [Node(it, agent, taken, needed, tries) for it in places]
        name = _key(place if items is None else f"{place}.${{i}}")
        return f'chaos.{agent}.add("{name}", {seconds or self._seconds:.2f}, {number})'

    def _measured(self, agent: str) -> tuple[str, int]:
        """The length of what a data agent says."""
        self._calls += 2
        self._nodes.append(Node(str(self._calls), agent))
        text = f'string-length(data.{agent}.measure("{_key(self._calls)}", {self._seconds:.2f}).text)'
        return text, len(f"{self._key}.{self._calls} measured")

    def _told(self) -> str:
        """One, if an LLM agent says what it is told to say after it has called its tool."""
        self._calls += 2
        key = _key(self._calls)
        self._nodes.append(Node(str(self._calls), "teller"))
        counted = f'{{\\"key\\": \\"{key}\\", \\"seconds\\": {self._seconds:.2f}}}'
        message = f"/tool counter__count {counted}\\n/say {key} done"
        told = f'chaos.teller.teller({{ message: "{message}", conversation_id: "{key}" }})'
        return f'(if (contains({told}, "{key} done")) 1 else 0)'


def _key(place: object) -> str:
    return f"${{key}}.{place}"
