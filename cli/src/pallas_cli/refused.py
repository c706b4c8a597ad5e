"""A refusal: what the user has to put right before the command can do anything.

It is not a crash. The entry prints each line to standard error and exits with code 2; there is never a traceback.
"""


class Refused(Exception):
    """The command cannot go on. `lines` are whole sentences, one for each thing that is wrong."""

    def __init__(self, *lines: str) -> None:
        self.lines = lines
        super().__init__("; ".join(lines))
