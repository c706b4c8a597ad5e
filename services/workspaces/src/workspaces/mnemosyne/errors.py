"""What can go wrong with a request to Mnemosyne. No message has anything of an answer's body."""

from pallas_contracts.errors import BadGateway, Unavailable


class MnemosyneAway(Unavailable):
    """Mnemosyne cannot be reached or has failed; a retry may succeed.

    Whether it did what was asked is unknown, unless the request was not `sent`.
    """

    default_code = "mnemosyne_away"

    def __init__(self, message: str, *, code: str | None = None, sent: bool = True) -> None:
        super().__init__(message, code=code)
        self.sent = sent


class MnemosyneRefused(BadGateway):
    """Mnemosyne refuses the request, and would refuse it again."""

    default_code = "mnemosyne_refused"


class NoSuchTeam(MnemosyneRefused):
    """Mnemosyne does not know the team."""

    default_code = "no_team"


class TeamGone(MnemosyneRefused):
    """The team was deleted in Mnemosyne, which cannot be undone (auth contract, section 13.2)."""

    default_code = "team_deleted"
