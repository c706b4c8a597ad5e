"""Every route demands its account, except the public ones."""

import re
from functools import partial
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from argon2 import PasswordHasher
from fastapi.routing import iter_route_contexts

from pallas_credentials.accounts import Accounts
from pallas_runtime.front import Front
from team_lifecycle.http.routing import ADMIN, ADMIN_ACCOUNT, SERVICE_ACCOUNT, TEAMS, make_app
from team_lifecycle.http.senders import admit

PUBLIC = {"/openapi.json", "/.well-known/jwks.json"}
HASH = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash("right")
NOTHING: Any = SimpleNamespace(engine=None, changes=SimpleNamespace(make=None), seal=None, algorithm="HS256")
"""What refused requests never use."""


@pytest.mark.parametrize("account", [None, SERVICE_ACCOUNT, ADMIN_ACCOUNT])
async def test_every_route_but_the_public_ones_refuses_other_accounts(account: str | None) -> None:
    app = make_app(NOTHING)
    front = Front(app, partial(admit, Accounts(dict.fromkeys((SERVICE_ACCOUNT, ADMIN_ACCOUNT), HASH))))
    own = {SERVICE_ACCOUNT: TEAMS, ADMIN_ACCOUNT: ADMIN}.get(account or "")
    routes = {
        (method, str(route.path)) for route in iter_route_contexts(app.routes) for method in route.methods or {"?"}
    }
    assert {path for _, path in routes} >= {f"{TEAMS}/", f"{ADMIN}/teams/", f"{ADMIN}/keys/reseal", *PUBLIC}
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(front), base_url="http://x", auth=(account, "right") if account else None
    ) as client:
        for method, path in sorted(routes):
            if own is not None and path.startswith(own):
                continue
            answer = await client.request(method, re.sub(r"{\w+}", "1", path), content=b"{not json")
            assert (answer.status_code == 401) == (path not in PUBLIC), (method, path, answer.text)
