"""An expected error of a command. `pallas` prints its lines to standard error and exits with its code, without a
traceback.
"""


class Refused(Exception):
    """The command cannot continue. Each of `lines` describes one fault.

    `code` is the exit code: 2 for wrong usage or settings, 1 if the platform refused or failed.
    """

    def __init__(self, *lines: str, code: int = 2) -> None:
        self.lines = lines
        self.code = code
        super().__init__("; ".join(lines))
