"""Links that log in to the console once."""

import webbrowser
from datetime import datetime

from pallas_cli.admin.api import AdminApi
from pallas_cli.admin.output import print_answer
from pallas_cli.plain_text import print_plain
from pallas_cli.refused import Refused


def show_link(api: AdminApi, *, as_json: bool, in_browser: bool) -> None:
    """Print a new link, and open it in a browser if wanted.

    Raises:
        Refused: no browser can be started.
    """
    link = api.change("POST", "login", "links")
    print_answer(link, link["url"], as_json=as_json)
    if not as_json:
        until = datetime.fromisoformat(link["expires_at"]).astimezone().strftime("%H:%M")
        print_plain(f"It logs in once, until {until}.", err=True)
    if in_browser and not webbrowser.open(link["url"]):
        raise Refused("no browser can be started: open the link yourself")
