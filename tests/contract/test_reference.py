"""The generated pages of the reference are current."""

from docs.site.reference import stale


def test_the_pages_of_settings_and_upstream_contracts_are_current() -> None:
    assert stale() == [], "run: uv run python -m docs.site.reference"
