"""Texts in programs that look like keys."""

import pytest
from tests.builders import agent_definition

from pallas_contracts.turns import Principal
from pipelines.modules.catalogue import Catalogue
from pipelines.programs import Compiler
from pipelines.storing.scopes import key_warnings, looks_like_a_key

KEY = "sk-proj-" + "Ab1" * 8


@pytest.mark.parametrize(
    "text",
    [
        KEY,
        "ghp_" + "a1B2" * 9,
        "AKIA" + "ABCD1234EFGH5678",
        "Bearer " + "abcdefgh" * 3,
        "eyJhbGciOiJI.eyJzdWIiOiIx.c2ln",
        "-----BEGIN RSA PRIVATE KEY-----",
        "postgres://ann:secret@db/x",
        "aB3" * 12,
    ],
)
def test_texts_that_look_like_keys(text: str) -> None:
    assert looks_like_a_key(text)


@pytest.mark.parametrize(
    "text",
    ["", "Hello, Bearer of news", "risk-assessment-of-all-things", "https://acme.com/a:b@c", "a" * 64, "0123abcd" * 8],
)
def test_texts_that_do_not(text: str) -> None:
    assert not looks_like_a_key(text)


async def test_a_warning_has_the_place_and_not_the_text() -> None:
    catalogue = Catalogue()
    catalogue.changed("demo.shelf", agent_definition("demo", "shelf"))
    source = f'in x: String\n# "{KEY}"\na = "{KEY}"\nb = concat("x ${{x}} {KEY}", "plain")\nout a\nout b\n'
    warnings = key_warnings(await Compiler(catalogue).compile(source, Principal()))
    assert [(each["line"], each["column"]) for each in warnings] == [(3, 5), (4, 12)]
    assert KEY not in str(warnings)
