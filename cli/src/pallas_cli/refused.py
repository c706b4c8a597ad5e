"""A refusal: what the user has to put right before the command can do anything.

It is not a crash. The entry prints each line to standard error and exits with the refusal's code; there is never a
traceback.
"""


class Refused(Exception):
    """The command cannot go on. `lines` are whole sentences, one for each thing that is wrong.

    `code` is the exit code: 2, or 1 when the command was understood and the platform was asked, and it cannot be done.
    """

    def __init__(self, *lines: str, code: int = 2) -> None:
        self.lines = lines
        self.code = code
        super().__init__("; ".join(lines))
