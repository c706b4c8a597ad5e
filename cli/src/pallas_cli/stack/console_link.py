"""The link with which a person opens the console of a stack that has started."""

from pallas_cli.refused import Refused
from pallas_cli.stack.asking import ask, client
from pallas_cli.stack.plan import AuthSide


async def console_link(auth: AuthSide) -> str | None:
    """A link that logs in once; None if the console does not answer."""
    import httpx

    try:
        async with client(auth.workspaces_url, "admin", auth.accounts.admin_password) as console:
            return (await ask(console, "POST", "/api/v1/login/links"))["url"]
    except (Refused, httpx.HTTPError):
        return None
