"""What comes from the platform cannot control the terminal, as text and in tables."""

import os
import subprocess
import sys

import pytest

from pallas_cli.plain_text import plain, plain_line, print_plain, print_table


def test_control_characters_are_escaped() -> None:
    hostile = "a\x1b]0;evil\x07b\x00c\x7fd\x9be\u202ef\rg"
    assert plain(hostile) == r"a\x1b]0;evil\x07b\x00c\x7fd\x9be\u202ef\rg"


def test_lines_tabs_and_letters_of_any_language_are_kept() -> None:
    text = "one\r\n\ttwo\nnaïve 日本 \U0001f469\u200d\U0001f4bb"
    assert plain(text) == text.replace("\r\n", "\n")
    assert plain_line("one\r\n\ttwo") == r"one\n\ttwo"


def test_a_text_is_printed_without_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    print_plain("to\x1bout")
    print_plain("to\x00err", err=True)
    assert capsys.readouterr() == ("to\\x1bout\n", "to\\x00err\n")


def test_work_goes_on_when_nobody_reads_its_progress() -> None:
    work = "from pallas_cli.plain_text import print_plain as p; [p('saved', err=True) for _ in range(9)]; p('done')"
    reader, progress = os.pipe()
    os.close(reader)
    run = subprocess.run([sys.executable, "-c", work], stdout=subprocess.PIPE, stderr=progress, check=False)
    os.close(progress)
    assert (run.stdout, run.returncode) == (b"done\n", 0)


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
