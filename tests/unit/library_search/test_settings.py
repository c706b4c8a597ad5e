"""The settings of library-search: lists and refused values."""

import pytest

from library_search.settings import LibrarySearchSettings, languages_of
from pallas_contracts.errors import Rejected


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("PALLAS_POSTGRES_URL", "mysql://secret@x/y"),
        ("PALLAS_POSTGRES_URL", "secret"),
        ("PALLAS_ADMIN_PASSWORD_HASH", "secret"),
        ("PALLAS_SEARCH_LANGUAGES", ","),
        ("PALLAS_SEARCH_LANGUAGES", "english'; drop table secret; --"),
        ("PALLAS_MAX_DOCUMENT_BYTES", "12"),
        ("PALLAS_POSTGRES_POOL", "1"),
    ],
)
def test_a_bad_value_is_refused_with_its_variable_and_not_shown(variable: str, value: str) -> None:
    with pytest.raises(Rejected, match=variable) as refused:
        LibrarySearchSettings.from_env({variable: value})
    assert "secret" not in refused.value.message


def test_languages_are_separated_by_commas() -> None:
    assert languages_of(" english, simple ,") == ("english", "simple")
