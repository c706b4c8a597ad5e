"""Tables of names that users have chosen."""

import pytest

from pallas_cli.plain_table import print_table


def test_markup_in_a_name_is_printed_literally(capsys: pytest.CaptureFixture[str]) -> None:
    name = "[bold]Kottos[/] :smile: [link=http://x]"
    print_table(("name",), [[name]])
    assert capsys.readouterr().out.splitlines()[1].strip() == name
