"""What an agent writes is told line by line, each line once."""

from fleet.running.watching import Lines


def test_a_line_is_told_when_another_one_follows_it() -> None:
    told = list[str]()
    lines = Lines(told.append)
    lines.shown(1, ["Reading", "Thinking |."])
    lines.shown(1, ["Reading", "Thinking /."])
    lines.shown(1, ["Reading", "", "Writing", "Thinking -."])
    assert told == ["Reading", "Writing"]
    lines.shown(1, ["Reading", "", "Writing", "done"])
    lines.end()
    lines.end()
    assert told == ["Reading", "Writing", "done"]


def test_another_message_ends_the_one_before() -> None:
    told = list[str]()
    lines = Lines(told.append)
    lines.shown(1, ["first"])
    lines.shown(3, ["second", "third"])
    assert told == ["first", "second"]


def test_of_lines_that_are_drawn_again_those_are_told_that_are_new() -> None:
    told = list[str]()
    lines = Lines(told.append)
    lines.shown(1, ["1 of 2", "a", "b", "c"])
    lines.shown(1, ["2 of 2", "a", "b", "c"])
    assert told == ["1 of 2", "a", "b", "2 of 2"]
    lines.shown(1, ["2 of 2", "a", "b", "c", "a", "d"])
    assert told[4:] == ["c", "a"]
