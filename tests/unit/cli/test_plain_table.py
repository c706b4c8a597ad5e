"""Tables of names that somebody else has chosen."""

import pytest

from pallas_cli.plain_table import print_table


def test_a_name_is_shown_as_it_is_whatever_could_be_read_into_it(capsys: pytest.CaptureFixture[str]) -> None:
    name = "[bold]Kottos[/] :smile: [link=http://x]"
    print_table(("name",), [[name]])
    assert capsys.readouterr().out.splitlines()[1].strip() == name
