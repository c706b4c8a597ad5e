"""The engine's cases, and the functions that they may call."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pallas_cst import types as t
from pallas_cst.check import check
from pallas_cst.functions import Function, Functions
from pallas_cst.parse import parse
from pallas_cst.stdlib import STANDARD_FUNCTIONS

ENGINE = Path(__file__).with_name("engine")

_FUNCTION_TYPE = re.compile(r"\((.*)\) => (.*)")


def read_type(text: str) -> t.Type:
    """A type as the language writes it, or the type of a lambda with one parameter."""
    if (found := _FUNCTION_TYPE.fullmatch(text)) is not None:
        return t.Function((read_type(found[1]),), read_type(found[2]))
    return check(parse(f"in x: {text} out x"), Functions([])).inputs["x"]


def read_function(given: dict[str, Any]) -> Function:
    """A function in the engine's notation."""
    parameters = tuple((name, read_type(kind)) for name, kind in given["params"])
    return Function(given["name"], parameters, read_type(given["returns"]), given["module"], given.get("namespace"))


@cache
def functions_in(name: str) -> list[Function]:
    """The functions in a file of signatures."""
    return [read_function(each) for each in json.loads((ENGINE / name).read_text("utf-8"))]


@cache
def _of_lists() -> list[Function]:
    """`filter`, `map`, `all`, `any` for `List<Int>`, with which tests of the engine begin that add a function."""
    return next(case.functions for case in cases("typecheck") if case.id == "TypeCheckerTest:2253:0")


@dataclass(frozen=True)
class Case:
    """One program. `codes` are those of which the first fault has one; empty: the engine's test names none."""

    given: dict[str, Any]

    @property
    def id(self) -> str:
        return self.given["id"]

    @property
    def source(self) -> str:
        return self.given["source"]

    @property
    def ok(self) -> bool:
        return self.given["expect"]["ok"]

    @property
    def output_type(self) -> str | None:
        return self.given["expect"].get("output_type")

    @property
    def runs(self) -> list[dict[str, Any]]:
        return self.given.get("runs", [])

    @property
    def codes(self) -> set[str]:
        codes = json.loads((ENGINE / "error-codes.json").read_text("utf-8"))["compile_error_to_code"]
        return {codes[name] for name in self.given["expect"].get("errors", [])}

    @property
    def functions(self) -> list[Function]:
        """The functions of the case. A function `name` stands for the one that the program calls."""
        own = [read_function(each | self._name(each)) for each in self.given.get("functions", [])]
        match self.given["registry"]:
            case "stdlib":
                return [*own, *STANDARD_FUNCTIONS]
            case "stdlib+example-lib":
                return [*own, *STANDARD_FUNCTIONS, *functions_in("example-lib-signatures.json")]
            case _ if own and "filter(" in self.source and all(each.name != "filter" for each in own):
                return own + _of_lists()
            case _:
                return own

    def _name(self, given: dict[str, Any]) -> dict[str, str]:
        called = re.search(r"(\w+)\(", self.source)
        return {"name": called[1]} if given["name"] == "name" and called else {}


def cases(*names: str) -> Iterator[Case]:
    """The cases in these files."""
    for name in names:
        for line in (ENGINE / f"{name}.jsonl").read_text("utf-8").splitlines():
            yield Case(json.loads(line))
