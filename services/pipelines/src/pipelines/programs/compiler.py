"""Checks sources against the modules of a caller, and keeps the last programs."""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field

from pallas_contracts.pipelines import LONGEST_SOURCE
from pallas_contracts.turns import Principal
from pallas_cst import syntax as s
from pallas_cst.check import check
from pallas_cst.faults import Code, Fault, Faulty, Span
from pallas_cst.parse import parse
from pipelines.modules.catalogue import Catalogue, Modules
from pipelines.programs.program import Program

MOST_CALLS = 2000
"""Calls in a program."""

_MOST_PROGRAMS = 512
_LONG = 2000
"""Characters from which a source is checked in a thread, so that others do not wait for it."""


@dataclass
class Compiler:
    """Makes programs. A program is good for one set of modules, so a change of the catalogue forgets it."""

    catalogue: Catalogue
    _known: OrderedDict[tuple[str, int], Program] = field(default_factory=OrderedDict[tuple[str, int], Program])

    async def compile(self, source: str, caller: Principal) -> Program:
        """The program of a source.

        Raises:
            Faulty: it has faults: all of them, the one of the engine first.
        """
        modules = self.catalogue.of(caller)
        key = (source, id(modules))
        known = self._known.get(key)
        if known is not None and known.modules is modules:
            self._known.move_to_end(key)
            return known
        if len(source) > _LONG:
            program = await asyncio.to_thread(checked_program, source, modules)
        else:
            program = checked_program(source, modules)
        self._known[key] = program
        if len(self._known) > _MOST_PROGRAMS:
            self._known.popitem(last=False)
        return program


def checked_program(source: str, modules: Modules) -> Program:
    """Parse and check a source.

    Raises:
        Faulty: it has faults, or is too long or has too many calls.
    """
    if len(source) > LONGEST_SOURCE:
        raise _too_large(f"the source has {len(source)} characters; the limit is {LONGEST_SOURCE}")
    checked = check(parse(source), modules.functions)
    calls = sum(isinstance(expr, s.Call) for expr in checked.types)
    if calls > MOST_CALLS:
        raise _too_large(f"the program has {calls} calls; the limit is {MOST_CALLS}")
    return Program(source, checked, modules)


def _too_large(message: str) -> Faulty:
    return Faulty(Fault(Code.SYNTAX, f"Syntax error: {message}", Span(0, 0)))
