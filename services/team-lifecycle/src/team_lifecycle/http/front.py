"""Identifies the sender of each request by its account.

Each router depends on the account that may use it. The body of a sender without an account is not read.
"""

from starlette.datastructures import Headers
from starlette.types import Scope

from pallas_credentials.accounts import Accounts
from pallas_runtime.front import Admitted, Limit
from team_lifecycle.model import STRANGER, Who


async def admit(accounts: Accounts, scope: Scope, correlation: str) -> Admitted:
    """Set `who` in the state of the request.

    Raises:
        Unavailable: too many passwords are being checked.
    """
    address, _ = scope.get("client") or ("", 0)
    account = await accounts.who(Headers(scope=scope).get("authorization"), address)
    return Admitted({"who": Who(account or STRANGER, correlation)}, Limit() if account is not None else None)
