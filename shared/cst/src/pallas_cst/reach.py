"""What of a program can be computed while inputs are missing."""

from collections.abc import Collection
from dataclasses import dataclass

from pallas_cst import syntax as s
from pallas_cst.check import Checked


@dataclass(frozen=True, slots=True)
class Reach:
    """The outputs that can be computed and those that cannot, and the declarations that wait for a missing input."""

    outputs: tuple[str, ...]
    pending: tuple[str, ...]
    waiting: frozenset[s.Declaration]


def reach(checked: Checked, missing: Collection[str]) -> Reach:
    """What can be computed without the inputs with these names.

    A value waits for an input that stands anywhere in its expression, also in a branch that may not be taken.
    """
    waiting = set[s.Declaration]()
    for declaration in checked.program.declarations if missing else ():
        match declaration:
            case s.Input(name) if name.text in missing:
                waiting.add(declaration)
            case s.Assignment(_, value):
                origins = {checked.variables[each] for each in s.parts_in(value) if isinstance(each, s.Variable)}
                if not waiting.isdisjoint(origins):
                    waiting.add(declaration)
            case _:
                pass
    pending = tuple(name for name, origin in checked.origins.items() if origin in waiting)
    outputs = tuple(name for name, origin in checked.origins.items() if origin not in waiting)
    return Reach(outputs, pending, frozenset(waiting))
