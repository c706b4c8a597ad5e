"""Every program in the documents is what the documents say that it is."""

import asyncio
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.requirements import requirement
from tests.unit.cst.cases import STANDARD_FUNCTIONS, functions_in

from pallas_cst import documents
from pallas_cst.check import check
from pallas_cst.evaluate import Calling, evaluate
from pallas_cst.faults import Code, Faulty
from pallas_cst.functions import Functions
from pallas_cst.parse import parse
from pallas_cst.stdlib import STANDARD
from pallas_cst.values import Value, from_json, to_json

MODULES = [
    replace(each, namespace="data.example_lib", tool=True) for each in functions_in("example-lib-signatures.json")
]
FUNCTIONS = Functions([*STANDARD_FUNCTIONS, *MODULES])
SEVERAL = Functions([*STANDARD_FUNCTIONS, *MODULES, *(replace(each, namespace="data.other") for each in MODULES)])
"""With these, the bare name of a module is ambiguous."""

ANSWERS: dict[str, Callable[[str], Value]] = {
    "WordCount": lambda text: len(text.split()),
    "Uppercase": str.upper,
    "FlakyService": "served {}".format,
    "QuickCheck": "checked {}".format,
    "DeepAnalysis": "analysed {}".format,
}
"""What the modules of the cookbook answer, as those of the demo do."""

LINK = re.compile(r"\]\(([^)#]*)(?:#([^)]*))?\)")


def blocks(name: str, language: str) -> list[str]:
    """The blocks of a document that are in this language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", documents.read(name), re.MULTILINE | re.DOTALL)


def codes(program: str, functions: Functions) -> list[str]:
    try:
        check(parse(program), functions)
    except Faulty as error:
        return [fault.code for fault in error.faults]
    return []


async def call(calling: Calling) -> Value:
    await asyncio.sleep(0)
    return ANSWERS[calling.function.name](*calling.arguments)


@pytest.mark.parametrize("name", [name for name in documents.names() if not name.startswith("errors/")])
def test_programs_in_the_documents_have_no_faults(name: str) -> None:
    assert [codes(program, FUNCTIONS) for program in blocks(name, "cst")] == [[] for _ in blocks(name, "cst")]


RESERVED_CODES = {"E011", "E021", "E030", "E900"}
"""Codes of the engine that no program gets."""


def test_every_code_has_a_page_with_common_mistakes() -> None:
    engine = json.loads((Path(__file__).parent / "engine" / "error-codes.json").read_text())
    assert set(documents.errors()) == {*Code, *RESERVED_CODES} == {each["code"] for each in engine["codes"]}
    assert [code for code in documents.errors() if "Common mistakes:" not in documents.read(f"errors/{code}")] == []


@requirement("C-res-5")
@pytest.mark.parametrize("code", sorted({*Code} - {Code.CIRCULAR}))
def test_the_page_of_a_code_shows_a_program_with_it_and_how_to_mend_it(code: str) -> None:
    faulty, mended = blocks(f"errors/{code}", "cst")
    assert documents.title(f"errors/{code}").startswith(f"{code}: ")
    assert (codes(faulty, SEVERAL if code == Code.AMBIGUOUS_FUNCTION else FUNCTIONS), codes(mended, FUNCTIONS)) == (
        [code],
        [],
    )


@requirement("C-res-4")
@pytest.mark.anyio
@pytest.mark.parametrize("name", documents.examples())
async def test_a_program_of_the_cookbook_has_the_outputs_beside_it(name: str) -> None:
    [program], given = (
        blocks(f"examples/{name}", "cst"),
        [json.loads(each) for each in blocks(f"examples/{name}", "json")],
    )
    checked = check(parse(program), FUNCTIONS)
    assert len(given) in (2, 4)
    for inputs, outputs in zip(given[::2], given[1::2], strict=True):
        values = {each: from_json(inputs[each], kind) for each, kind in checked.inputs.items()}
        found: dict[str, Any] = await evaluate(checked, values, call)
        assert {each: to_json(value, checked.outputs[each]) for each, value in found.items()} == outputs


def test_every_function_of_the_standard_library_is_listed_with_its_signature() -> None:
    text = documents.read("standard-library")
    for each in STANDARD.values():
        signature = str(each.function).removeprefix(f"{each.function.namespace}.")
        assert f"| `{signature}` | {each.about.rstrip('.')} |" in text


@pytest.mark.parametrize("name", documents.names())
def test_links_lead_to_documents(name: str) -> None:
    folder = name.rpartition("/")[0]
    targets = [target for target, _ in LINK.findall(documents.read(name)) if target]
    whole = [target.removeprefix("../") if target.startswith("../") else f"{folder}/{target}" for target in targets]
    assert {target.strip("/").removesuffix(".md") for target in whole} <= set(documents.names())


def test_an_unknown_document_is_not_found() -> None:
    with pytest.raises(KeyError):
        documents.read("../__init__")
