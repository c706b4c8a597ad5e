"""The generated parts of the reference are current, and generating them finds what is not described."""

import pytest
from docs.site import errors, inserted, reference
from docs.site.error_codes import Raised
from tests.requirements import requirement


@requirement("K-doc-2")
def test_the_generated_pages_and_tables_are_current() -> None:
    assert reference.stale() == [], "run: uv run python -m docs.site.reference"


def test_an_error_code_without_a_text_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors, "error_codes", lambda: {"brand_new": Raised({"calls"})})
    with pytest.raises(ValueError, match=r"no text in errors\.toml: brand_new"):
        errors.errors()


def test_a_page_that_has_no_place_for_a_table_is_found() -> None:
    with pytest.raises(ValueError, match="has places for methods, errors, and not for methods"):
        inserted.with_tables(reference.rpc.PAGE, {"methods": ""})
