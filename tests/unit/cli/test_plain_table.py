"""Tables of names that users have chosen."""

import pytest

from pallas_cli.plain_text import print_table


def test_markup_in_a_name_is_printed_literally(capsys: pytest.CaptureFixture[str]) -> None:
    name = "[bold]Kottos[/] :smile: [link=http://x]"
    print_table(("name",), [[name]])
    assert capsys.readouterr().out.splitlines()[1].strip() == name


def test_control_characters_are_escaped_and_a_row_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("name", "title"), [["a\x1b[2Jb", "one\ntwo\x07"]])
    assert capsys.readouterr().out.splitlines()[1].split() == [r"a\x1b[2Jb", r"one\ntwo\x07"]


def test_long_cells_are_cut_and_the_first_column_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("name", "version", "message"), [["n" * 100, "9" * 900, "m" * 900]])
    name, version, message = capsys.readouterr().out.splitlines()[1].split()
    assert (name, version, message) == ("n" * 100, "9" * 79 + "…", "m" * 239 + "…")
