"""Tools as modules of the language."""

import time

from hypothesis import given
from hypothesis import strategies as st
from tests.builders import agent_definition

from pallas_contracts.agents import Allow, ToolDefinition
from pallas_contracts.turns import Principal
from pallas_cst.check import check
from pallas_cst.parse import parse
from pallas_cst.types import RESERVED
from pipelines.modules.catalogue import Catalogue
from pipelines.modules.module import language_names

ALICE, TEAM = Principal(type="user", id="usr_alice"), Principal(type="team", id="team-x")

NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def catalogue(*keys: str, allow: Allow | None = None, tools: tuple[str, ...] = ("double",)) -> Catalogue:
    found = Catalogue()
    for key in keys:
        team, agent = key.split(".")
        made = tuple(ToolDefinition(name=name, input_schema=NUMBER, output_schema=NUMBER) for name in tools)
        found.changed(key, agent_definition(team, agent, tools=made, allow=allow, revision=key))
    return found


def test_names_that_meet_are_numbered_in_time_that_grows_with_their_number() -> None:
    began = time.process_time()
    names = language_names(f"a{'!' * (n % 7)}{chr(0x4E00 + n // 7)}" for n in range(50_000))
    assert len(set(names.values())) == 50_000
    assert time.process_time() - began < 2.0  # 0.1 s on an idle core


@given(st.sets(st.text(min_size=1, max_size=8), min_size=1, max_size=8))
def test_names_are_identifiers_and_differ(originals: set[str]) -> None:
    names = language_names(originals)
    assert names.keys() == originals
    assert len(set(names.values())) == len(originals)
    for name in names.values():
        parse(f"in {name}: Int\nout {name}")
        assert name not in RESERVED


def test_what_an_identifier_cannot_have_is_replaced() -> None:
    assert language_names(["if", "2nd", "a.b", "a b", "-x"]) == {
        "if": "_if",
        "2nd": "_2nd",
        "a b": "a_b",
        "a.b": "a_b_2",
        "-x": "_-x",
    }


def test_a_module_is_found_by_its_qualified_name_by_its_tool_and_by_a_bare_name_that_is_unique() -> None:
    modules = catalogue("demo.if").of(ALICE)
    for name in ("demo._if.double", "demo.if.double", "double"):
        function = modules.function(name)
        assert function is not None, name
        assert function.module == "demo/if/double"
    assert catalogue("demo.a", "demo.b").of(ALICE).function("double") is None
    assert modules.function("demo._if.triple") is None
    standard = modules.function("add")
    assert standard is not None
    assert modules.document(standard)["name"] == "stdlib.math.add"


def test_a_caller_has_only_the_modules_that_it_may_use() -> None:
    found = catalogue("demo.a", allow=Allow(teams=("team-x",)))
    assert not found.of(ALICE).by_basis
    assert list(found.of(TEAM).by_basis) == ["demo/a/double"]


def test_an_agent_that_nobody_may_use_has_no_modules() -> None:
    found = catalogue("demo.a", allow=Allow())
    assert found.definition("demo", "a") is None
    assert not found.everything().by_basis


def test_a_change_is_seen_at_once_and_the_same_revision_is_no_change() -> None:
    found, changes = catalogue("demo.a"), list[None]()
    found.on_change(lambda: changes.append(None))
    before = found.of(ALICE)
    found.changed("demo.a", agent_definition("demo", "a", revision="demo.a"))
    assert found.of(ALICE) is before
    found.changed("demo.a", agent_definition("demo", "a", revision="2"))
    assert list(found.of(ALICE).by_basis) == ["demo/a/a"]
    found.changed("demo.a", None)
    assert not found.of(ALICE).by_basis
    assert len(changes) == 2


def test_tools_named_like_functions_of_the_library_change_no_program() -> None:
    modules = catalogue("demo.a", tools=("add", "trim", "not", "eq-int")).of(ALICE)
    program = 'in x: Int\na = x + 1\nb = a != 2\nc = trim("x")\nd = demo.a.add(x).n\nout a\nout b\nout c\nout d'
    checked = check(parse(program), modules.functions)
    used = {function.module for called in checked.functions.values() for function in called if function is not None}
    assert used == {"stdlib.add", "stdlib.eq-int", "stdlib.not", "stdlib.trim", "demo/a/add"}


def test_a_tag_that_is_both_team_and_kind_is_listed_once() -> None:
    [module] = catalogue("llm.a").of(ALICE).by_basis.values()
    assert module.tags == ("llm", "a")
