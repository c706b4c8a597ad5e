"""The programs of the Constellation engine's own tests are parsed, checked and computed as there."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.requirements import requirement
from tests.unit.cst.cases import STANDARD_FUNCTIONS, Case, cases, functions_in, read_type

from pallas_cst.canonical import structural_hash
from pallas_cst.check import Checked, check
from pallas_cst.evaluate import Calling, RunFailed, evaluate
from pallas_cst.faults import Faulty
from pallas_cst.functions import Functions
from pallas_cst.parse import parse
from pallas_cst.pretty import pretty
from pallas_cst.values import Value, from_json, to_json

TEXTS = ("typecheck", "compile", "exampleapp", "stdlib")


def case_id(case: Case) -> str:
    return case.id


def parametrized(*names: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", list(cases(*names)), ids=case_id)


def checked(case: Case) -> Checked:
    return check(parse(case.source), Functions(case.functions))


@requirement("C-lang-1")
@parametrized("parse")
def test_a_program_is_parsed_or_refused_as_by_the_engine(case: Case) -> None:
    if case.ok:
        parse(case.source)
        return
    with pytest.raises(Faulty) as refused:
        parse(case.source)
    assert [fault.code for fault in refused.value.faults] == ["E020"]


@requirement("C-lang-2")
@parametrized(*TEXTS)
def test_a_program_is_accepted_or_has_the_engines_code(case: Case) -> None:
    if case.ok:
        outputs = checked(case).outputs
        if case.output_type is not None:
            assert next(iter(outputs.values())) == read_type(case.output_type)
        return
    with pytest.raises(Faulty) as refused:
        checked(case)
    if case.codes:
        assert refused.value.faults[0].code in case.codes


@parametrized(*TEXTS)
def test_a_program_that_is_written_again_is_the_same_program(case: Case) -> None:
    if not case.ok:
        return
    text = pretty(parse(case.source))
    assert pretty(parse(text)) == text
    assert structural_hash(check(parse(text), Functions(case.functions))) == structural_hash(checked(case))


type Ints = list[int]


def average(numbers: Ints) -> float:
    return sum(numbers) / len(numbers) if numbers else 0.0


def greatest(numbers: Ints) -> int:
    return max(numbers, default=0)


def least(numbers: Ints) -> int:
    return min(numbers, default=0)


def greater_than(numbers: Ints, threshold: int) -> Ints:
    return [each for each in numbers if each > threshold]


def multiplied(numbers: Ints, by: int) -> Ints:
    return [each * by for each in numbers]


def numbers_from(start: int, end: int) -> Ints:
    return list(range(start, end + 1))


def words(text: str) -> int:
    return len(text.split())


EXAMPLES: dict[str, Callable[..., Any]] = {
    "SumList": sum,
    "Average": average,
    "Max": greatest,
    "Min": least,
    "FilterGreaterThan": greater_than,
    "MultiplyEach": multiplied,
    "Range": numbers_from,
    "FormatNumber": "{:,}".format,
    "Uppercase": str.upper,
    "Lowercase": str.lower,
    "Trim": str.strip,
    "Replace": str.replace,
    "WordCount": words,
    "TextLength": len,
    "Contains": str.__contains__,
    "SplitLines": str.splitlines,
    "Split": str.split,
}
"""What the example modules of the engine compute."""


async def call_example(calling: Calling) -> Value:
    await asyncio.sleep(0)
    if calling.compute is not None:
        return await calling.compute()
    return EXAMPLES[calling.function.name](*calling.arguments)


@requirement("C-lang-3")
@pytest.mark.anyio
@pytest.mark.parametrize("case", [each for each in cases(*TEXTS) if each.runs], ids=case_id)
async def test_a_program_has_the_engines_outputs(case: Case) -> None:
    program = checked(case)
    for run in case.runs:
        inputs = {name: from_json(value, program.inputs[name]) for name, value in run["inputs"].items()}
        if run.get("run_error"):
            with pytest.raises(RunFailed):
                await evaluate(program, inputs, call_example)
            continue
        outputs = await evaluate(program, inputs, call_example)
        found = {name: to_json(value, program.outputs[name]) for name, value in outputs.items()}
        assert found | run["outputs"] == found


def test_the_standard_library_has_the_engines_signatures() -> None:
    assert {str(each): each.module for each in STANDARD_FUNCTIONS} == {
        str(each): each.module for each in functions_in("stdlib-signatures.json")
    }
