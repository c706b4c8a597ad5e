"""Parts of lists that were read as a whole."""

import pytest

from pallas_cli.options import Page
from pallas_cli.refused import WrongUsage

ROWS = ["a", "b", "c"]


@pytest.mark.parametrize(
    ("page", "rows", "said"),
    [
        (Page(), ROWS, ""),
        (Page(3), ROWS, ""),
        (Page(2), ["a", "b"], "more: --after b\n"),
        (Page(1, "a"), ["b"], "more: --after b\n"),
        (Page(2, "a"), ["b", "c"], ""),
        (Page(None, "c"), [], ""),
    ],
)
def test_a_part_ends_with_where_the_next_one_begins(
    page: Page, rows: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (page.cut(ROWS, str), capsys.readouterr().err) == (rows, said)


def test_a_row_that_is_not_there_is_refused() -> None:
    with pytest.raises(WrongUsage, match="no row 'x'"):
        Page(after="x").cut(ROWS, str)
