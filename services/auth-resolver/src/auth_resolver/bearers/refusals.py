"""The error for a refused bearer. Its code is counted; its message is the contract's (section 6.4)."""

from pallas_contracts.auth import AUTH_FAILURES
from pallas_contracts.errors import Denied


def refused(reason: str) -> Denied:
    """The refusal for one of the reasons of `AUTH_FAILURES`. It discloses nothing of the token."""
    return Denied(AUTH_FAILURES[reason], code=reason)
