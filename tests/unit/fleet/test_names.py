"""Names of agents, of projects and of roles."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.coder.model import Role, Template
from fleet.handlers.show import metadata_names
from fleet.handlers.start_task import check_text
from fleet.names import LONGEST_NAME, agent_name, check_name
from fleet.seeing.status import find_project, find_role, project_view, usable
from pallas_contracts.errors import NotFound, Rejected


@pytest.mark.parametrize("name", ["Papi", "a", "A-1", "x" * 20, "NEWS", "create2"])
def test_a_name_that_an_agent_can_have(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize(
    "name", ["", "x" * 21, "-a", "a-", "a--b", "a b", "a_b", "ä", "new", "Create", "a\n", "\uff11"]
)
def test_a_name_that_no_agent_can_have(name: str) -> None:
    with pytest.raises(Rejected) as error:
        check_name(name)
    assert error.value.facts == {"field": "name"}


@given(st.lists(st.text("abcABC019", min_size=1, max_size=8), min_size=1, max_size=4).map("-".join))
def test_a_name_is_as_coder_wants_it(name: str) -> None:
    fits = len(name) <= LONGEST_NAME and name.lower() not in ("new", "create")
    try:
        check_name(name)
    except Rejected:
        assert not fits
    else:
        assert fits


def test_a_prefix_of_workspaces_is_no_part_of_the_name() -> None:
    assert agent_name("agent-papi", "agent-") == "papi"
    assert agent_name("papi", "") == "papi"


def template(name: str, display: str = "", *, deprecated: bool = False) -> Template:
    return Template(id=f"id-{name}", name=name, display_name=display, deprecated=deprecated)


TEMPLATES = (
    template("coder-devcontainer", "Setup"),
    template("data-one", "DataOne Platform"),
    template("data-two", "DataTwo"),
    template("old", "Old", deprecated=True),
    template("bare"),
)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("Setup", "coder-devcontainer"),
        ("setup", "coder-devcontainer"),
        ("CODER-devcontainer", "coder-devcontainer"),
        ("dataone-platform", "data-one"),
        ("DataOne", "data-one"),
        ("dataone_platform", "data-one"),
        ("Set", "coder-devcontainer"),
        ("data one", "data-one"),
        ("bare", "bare"),
        (" Bare ", "bare"),
    ],
)
def test_a_project_is_found_by_its_names_and_by_a_beginning_that_only_it_has(wanted: str, found: str) -> None:
    assert find_project(TEMPLATES, wanted).name == found


def test_a_beginning_of_several_projects_names_them() -> None:
    with pytest.raises(Rejected, match=r"ambiguous.*data-one, data-two"):
        find_project(TEMPLATES, "data")


@pytest.mark.parametrize("wanted", ["Old", "nope", "", " ", "-"])
def test_a_project_that_does_not_exist_is_answered_with_those_that_do(wanted: str) -> None:
    with pytest.raises(NotFound, match=r"bare, DataOne Platform, DataTwo, Setup"):
        find_project(TEMPLATES, wanted)


def test_a_name_of_its_own_comes_before_a_beginning() -> None:
    assert find_project((template("setup-two"), template("setup")), "setup").name == "setup"


def test_projects_are_shown_by_name_with_their_templates() -> None:
    assert [project_view(each)["name"] for each in usable(TEMPLATES)] == [
        "bare",
        "DataOne Platform",
        "DataTwo",
        "Setup",
    ]
    assert project_view(TEMPLATES[0]) == {
        "name": "Setup",
        "display_name": "Setup",
        "description": "",
        "template_id": "id-coder-devcontainer",
        "template_name": "coder-devcontainer",
    }


def test_errors_repeat_the_beginning_of_a_long_name() -> None:
    for find in (lambda: find_project(TEMPLATES, "x" * 99_999), lambda: find_role(ROLES, "x" * 99_999, "Setup")):
        with pytest.raises((NotFound, Rejected), match=r"x{59}… | does not exist") as caught:
            find()
        assert len(caught.value.message) < 200


ROLES = (Role("coder", "Coder", preset_id="p1"), Role("site-operator", "Site Operator", preset_id="p2"))


@pytest.mark.parametrize(
    ("wanted", "preset"), [("coder", "p1"), ("CODER", "p1"), ("Site Operator", "p2"), ("site-operator", "p2")]
)
def test_a_role_is_found_by_its_names(wanted: str, preset: str) -> None:
    assert find_role(ROLES, wanted, "Setup").preset_id == preset


@pytest.mark.parametrize("wanted", ["manager", "", "site"])
def test_a_role_that_does_not_exist_is_answered_with_those_that_do(wanted: str) -> None:
    with pytest.raises(Rejected, match=r"roles are: coder, site-operator"):
        find_role(ROLES, wanted, "Setup")


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n\t",
        "\ufeff",
        "\u200b \u00a0",
        "a\x1b[201~b",
        "a\rb",
        "a\r\r\nb",
        "a\x00b",
        "a\x7fb",
        "a\x9bb",
        "\ud800",
        "x" * 11,
    ],
)
def test_a_text_that_cannot_be_typed(text: str) -> None:
    with pytest.raises(Rejected) as error:
        check_text("spec", text, 10)
    assert error.value.facts == {"field": "spec"}
    assert "\x1b" not in error.value.message


@pytest.mark.parametrize("text", ["a", "a\n\tb", "ä€𝄞", "x" * 10])
def test_a_text_that_can_be_typed(text: str) -> None:
    assert check_text("spec", text, 10) == text


def test_lines_that_end_as_on_windows_are_typed_as_lines() -> None:
    assert check_text("spec", "first\r\n\r\nlast\r\n", 14) == "first\n\nlast\n"


def test_names_of_metadata_are_a_setting() -> None:
    assert metadata_names(("a=b", " c = d ")) == {"a": "b", "c": "d"}
    with pytest.raises(Rejected, match="PALLAS_FLEET_METADATA"):
        metadata_names(("a",))
