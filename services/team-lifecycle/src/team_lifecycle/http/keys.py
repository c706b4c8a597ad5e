"""Routes of signing keys, for admins."""

from functools import partial

from fastapi import APIRouter

from pallas_postgres.engine import reading
from team_lifecycle.handlers import keys
from team_lifecycle.handlers.answers import AddedKey, KeyDetail, Page
from team_lifecycle.handlers.listing import list_keys
from team_lifecycle.handlers.roles import check_admin
from team_lifecycle.http.errors import REFUSALS
from team_lifecycle.http.fields import Kid, NewKey
from team_lifecycle.http.parts import Parts
from team_lifecycle.http.senders import Acting


def keys_router(parts: Parts) -> APIRouter:
    """The routes of signing keys."""
    router = APIRouter(tags=["keys"], responses=REFUSALS)
    make = parts.changes.make

    @router.get("/keys")
    async def list_all_keys(who: Acting) -> Page[KeyDetail]:
        """List all signing keys, the oldest first."""
        check_admin(who)
        async with reading(parts.engine) as session:
            return await list_keys(session)

    @router.post("/keys", status_code=201)
    async def add_key(body: NewKey, who: Acting) -> AddedKey:
        """Create a key. Only this answer has the secret of a key for per-turn tokens."""
        check_admin(who)
        algorithm = body.algorithm or (parts.algorithm if body.purpose == "team" else "HS256")
        decide = partial(keys.add_key, purpose=body.purpose, algorithm=algorithm, current=body.current, seal=parts.seal)
        return await make(who, decide)

    @router.post("/keys/reseal", status_code=204)
    async def reseal_keys(who: Acting) -> None:
        """Encrypt all secrets again, with the first Fernet key of the settings."""
        check_admin(who)
        await make(who, partial(keys.reseal_keys, seal=parts.seal))

    @router.post("/keys/{kid}/current")
    async def make_current(kid: Kid, who: Acting) -> KeyDetail:
        """Make this the key that signs team JWTs."""
        check_admin(who)
        return await make(who, partial(keys.make_current, kid=kid))

    @router.post("/keys/{kid}/retire")
    async def retire_key(kid: Kid, who: Acting) -> KeyDetail:
        """Retire a key. All JWTs signed with it become invalid. This cannot be undone."""
        check_admin(who)
        return await make(who, partial(keys.retire_key, kid=kid))

    return router
