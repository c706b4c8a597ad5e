"""The commands over the admin API of team-lifecycle: users, libraries, tokens, teams and keys."""

from contextlib import suppress
from datetime import UTC, datetime
from inspect import Parameter
from typing import Literal
from uuid import UUID, uuid4

import typer

from pallas_cli.completing import complete_registered_team
from pallas_cli.moments import moment_ahead
from pallas_cli.options import argument, flag, option
from pallas_cli.plain_text import print_answer, print_plain
from pallas_cli.rest.client import Api, Row, find_row
from pallas_cli.rest.commands import (
    Change,
    Columns,
    Given,
    Group,
    List,
    Service,
    Show,
    date,
    listed,
    one_or_none,
)

LIFECYCLE = Service("team-lifecycle", "team_lifecycle", "admin/api")

# Users.

USERS = Group(LIFECYCLE)
_USER = argument("user", "Name of the user.")
_USERS: Columns = {
    "user": "name",
    "state": lambda row: "active" if row["active"] else "inactive",
    "since": date("created_at"),
}
USERS.add("list", "List users and whether they are active.", List("users", _USERS, "There are no users."))
USERS.add("show", "Show one user.", Show("users", "user", "name", _USERS), _USER)
USERS.add(
    "create",
    "Create a user. An existing user is not changed.",
    Change(
        "POST users",
        "Created user {user}.",
        body=lambda given: {"name": given["user"]},
        known="User {user} already exists.",
    ),
    _USER,
)
for verb, active, about, state in (
    (
        "deactivate",
        False,
        "Deactivate a user. All tokens of the user are refused until `activate`.",
        "inactive: all tokens of the user are refused.",
    ),
    (
        "activate",
        True,
        "Activate a user again: the user's tokens are accepted.",
        "active: the user's tokens are accepted.",
    ),
):
    work = Change("PATCH users/{user}", f"User {{user}} is {state}", body=lambda _, active=active: {"active": active})
    USERS.add(verb, about, work, _USER)


def _scopes(api: Api, given: Given) -> None:
    user, libraries = given["user"], list[str](api.get("users", given["user"], "scopes"))
    text = "\n".join(libraries) or f"User {user} neither owns nor manages a library."
    print_answer(libraries, text, as_json=given["as_json"])


USERS.add("scopes", "List the libraries that a user's tokens may read. The user owns or manages them.", _scopes, _USER)

# Libraries. Two more commands are in `commands/libraries.py`.

LIBRARIES = Group(LIFECYCLE)
_LIBRARY = argument("library", "Uid of the library.")
_ROLE = argument("role", "Role of the user on the library.", Literal["owner", "manager", "reader"])
_LIBRARIES: Columns = {"library": "uid", "name": "name", "workspace": "workspace_id", "since": date("created_at")}
_MEMBERS: Columns = {"library": "library_uid", "user": "user_name", "role": "role", "since": date("created_at")}
LIBRARIES.add(
    "list",
    "List libraries with their workspaces.",
    List("libraries", _LIBRARIES, "No libraries found.", filters={"workspace_id": "workspace"}),
    option("workspace", "Only libraries of this workspace.", metavar="ID"),
)
LIBRARIES.add("show", "Show one library.", Show("libraries", "library", "uid", _LIBRARIES), _LIBRARY)
LIBRARIES.add(
    "create",
    "Create a library. Creating the same library again changes nothing.",
    Change(
        "POST libraries",
        "Created library {library}.",
        body=lambda given: {
            "uid": given["library"],
            "name": given["name"] or given["library"],
            "workspace_id": given["workspace"],
            "owner": given["owner"],
        },
        known="Library {library} already exists.",
    ),
    _LIBRARY,
    option("name", "Display name. [default: the uid]"),
    option("workspace", "Workspace whose teams can read it.", metavar="ID"),
    option("owner", "User who owns it.", metavar="USER"),
)
LIBRARIES.add(
    "rename",
    "Change the display name of a library.",
    Change(
        "PUT libraries/{library}/name",
        "Renamed library {library} to {name}.",
        body=lambda given: {"name": given["name"]},
    ),
    _LIBRARY,
    argument("name", "New display name."),
)
LIBRARIES.add(
    "move",
    "Move a library to another workspace, whose teams can then read it. Only an admin can do this.",
    Change(
        "PUT libraries/{library}/workspace",
        lambda given, _: (
            f"Library {given['library']} is now in workspace {given['workspace']}."
            if given["workspace"]
            else f"Library {given['library']} is now in no workspace: no team can read it."
        ),
        body=lambda given: {"workspace_id": one_or_none(given, "workspace", "WORKSPACE")},
    ),
    _LIBRARY,
    argument("workspace", "Id of the workspace.", str | None, default=None),
    flag("none", "Remove it from its workspace: no team can read it."),
)
LIBRARIES.add(
    "delete",
    "Delete a library with its documents and memberships. It is removed from all tokens.",
    Change("DELETE libraries/{library}", "Deleted library {library}.", answer={"uid": "{library}", "deleted": True}),
    _LIBRARY,
    sure="library {library!r} and its documents are deleted",
)
LIBRARIES.add(
    "members",
    "List users with their roles on libraries.",
    List("memberships", _MEMBERS, "No members found.", filters={"library": "library", "user": "user"}),
    argument("library", "Only members of this library.", str | None, default=None),
    option("user", "Only memberships of this user.", metavar="USER"),
)
LIBRARIES.add(
    "grant",
    "Give a user a role on a library. Tokens of owners and managers may read the library.",
    Change(
        "PUT memberships/{library}/{user}/{role}",
        "User {user} is now {role} of library {library}.",
        known="User {user} is now {role} of library {library}.",
    ),
    _LIBRARY,
    _USER,
    _ROLE,
)
LIBRARIES.add(
    "revoke",
    "Take a role from a user. The library is removed from the user's tokens that needed the role.",
    Change(
        "DELETE memberships/{library}/{user}/{role}",
        "User {user} is no longer {role} of library {library}.",
        answer={"library_uid": "{library}", "user_name": "{user}", "role": "{role}", "revoked": True},
    ),
    _LIBRARY,
    _USER,
    _ROLE,
    sure="tokens of {user!r} that needed the role lose library {library!r}",
)

# Tokens.


def _token_state(row: Row) -> str:
    if row["revoked_at"]:
        return "revoked"
    expires = row["expires_at"]
    return "expired" if expires and datetime.fromisoformat(expires) <= datetime.now(UTC) else "valid"


TOKENS = Group(LIFECYCLE)
_TOKEN = argument("token", "Id of the token, as `list` shows it.")
_TOKENS: Columns = {
    "token": "id",
    "user": "user_name",
    "name": "name",
    "libraries": "allowed_libraries",
    "expires": date("expires_at"),
    "state": _token_state,
}
TOKENS.add(
    "list",
    "List tokens with their users, libraries, expiry and state.",
    List("tokens", _TOKENS, "No tokens found.", filters={"user": "user"}),
    option("user", "Only tokens of this user.", metavar="USER"),
)
TOKENS.add("show", "Show one token, without its text.", Show("tokens", "token", "id", _TOKENS), _TOKEN)


def _new_token(given: Given) -> Row:
    expires = moment_ahead(given["expires"]).isoformat() if given["expires"] else None
    libraries: list[str] = given["library"] or []
    return {"user": given["user"], "name": given["name"], "allowed_libraries": libraries, "expires_at": expires}


TOKENS.add(
    "create",
    "Create a token and print it once. Its user must own or manage the libraries that it can read.",
    Change(
        "POST tokens",
        lambda given, token: (
            f"Token {token['id']} of user {given['user']} can read "
            f"{listed(token['allowed_libraries']) if given['library'] else 'nothing yet'}."
        ),
        body=_new_token,
        once="token",
    ),
    argument("name", "Purpose of the token, as `list` shows it."),
    option("user", "User who owns the token.", str, metavar="USER", default=Parameter.empty),
    option("library", "Library that it can read. May be repeated.", list[str] | None, metavar="LIBRARY"),
    option("expires", "Time span from now (12h, 90d) or ISO 8601 time. [default: never]", metavar="WHEN"),
)
TOKENS.add(
    "libraries",
    "Replace the libraries that a token can read.",
    Change(
        "PUT tokens/{token}/libraries",
        lambda given, token: (
            f"Token {given['token']} can read {listed(token['allowed_libraries']) if given['library'] else 'nothing'}."
        ),
        body=lambda given: {"allowed_libraries": one_or_none(given, "library", "LIBRARY...") or []},
    ),
    _TOKEN,
    argument("library", "Uids of the libraries.", list[str] | None, default=None),
    flag("none", "The token can read nothing."),
)
TOKENS.add(
    "delete",
    "Delete a token. It becomes invalid, and `list` goes on showing it as revoked.",
    Change("DELETE tokens/{token}", "Token {token} is revoked.", answer={"id": "{token}", "revoked": True}),
    _TOKEN,
    sure="token {token} becomes invalid",
)

# Teams.


def _find_team(api: Api, given: str) -> Row:
    """The team that has this id, or alone has this name and is not deleted."""
    with suppress(ValueError):
        return {"id": str(UUID(given))}
    return find_row([row for row in api.rows("teams") if row["active"]], given, "team")


def _team_state(row: Row) -> str:
    return "active" if row["active"] else "deleted"


TEAMS = Group(LIFECYCLE, {"team": _find_team})
_TEAM = argument("team", "Id or name of the team, as `list` shows it.", complete=complete_registered_team)
_TEAMS: Columns = {"team": "id", "name": "name", "state": _team_state, "workspaces": "workspace_ids"}
TEAMS.add("list", "List teams with their workspaces, deleted teams too.", List("teams", _TEAMS, "There are no teams."))


def _show_team(api: Api, given: Given) -> None:
    row: Row = api.get("teams", given["team"])
    text = (
        f"{row['id']} {row['name']}: {_team_state(row)}\n  workspaces: {listed(row['workspace_ids'])}\n"
        f"  active jti: {row['active_jti']}"
    )
    print_answer(row, text, as_json=given["as_json"])


TEAMS.add("show", "Show one team.", _show_team, _TEAM)


def _create_team(api: Api, given: Given) -> None:
    """Create a team and print its JWT. That of an existing team cannot be shown; exit code 1 if it was deleted."""
    row = api.make("POST", "teams", body={"id": given["id"] or str(uuid4()), "name": given["name"]})
    team, as_json = row["id"], given["as_json"]
    if row["new"] or as_json:
        print_answer(row, row.get("jwt", ""), as_json=as_json)
    if row["new"]:
        said, gone = f"This is the JWT of team {team}. It cannot be shown again.", False
    else:
        gone = not row["active"]
        advice = f"Its JWT cannot be shown again; `pallas teams rotate {team}` makes a new one."
        if gone:
            advice = "A deleted team cannot be restored; create a team with another id."
        said = f"Team {team} already exists: {_team_state(row)}. {advice}"
    if not as_json:
        print_plain(said, err=True)
    if gone:
        raise typer.Exit(1)


TEAMS.add(
    "create",
    "Create a team and print its JWT once. An existing team is not changed; exit code 1 if it was deleted.",
    _create_team,
    argument("name", "Display name."),
    option("id", "Id of the team. [default: a new one]", metavar="UUID"),
)
TEAMS.add(
    "rotate",
    "Give a team a new JWT and print it once. The previous JWT becomes invalid.",
    Change(
        "POST teams/{team}/rotate",
        "This is the new JWT of team {team}; the previous one is now invalid.",
        answer={"id": "{team}"},
        once="jwt",
    ),
    _TEAM,
    sure="the current JWT of team {team} becomes invalid",
)
TEAMS.add(
    "delete",
    "Delete a team. Its JWT becomes invalid, and the team cannot be restored.",
    Change(
        "DELETE teams/{team}",
        "Team {team} is deleted: its JWT is now invalid.",
        answer={"id": "{team}", "deleted": True},
    ),
    _TEAM,
    sure="team {team} is deleted",
)
TEAMS.add(
    "workspaces",
    "Replace the workspaces that a team can read. A workspace may have no libraries yet.",
    Change(
        "PUT teams/{team}/workspaces",
        lambda given, answer: (
            f"Team {given['team']} can read workspaces {listed(answer['workspace_ids'])}."
            if given["workspace"]
            else f"Team {given['team']} can read nothing: it is paused."
        ),
        body=lambda given: {"workspace_ids": one_or_none(given, "workspace", "WORKSPACE...") or []},
        answer={"id": "{team}"},
    ),
    _TEAM,
    argument("workspace", "Ids of the workspaces.", list[str] | None, default=None),
    flag("none", "Pause the team: it can read nothing, and its JWT stays valid."),
)

# Keys. Pallas signs team JWTs with one of them, Daedalus signs per-turn JWTs with others.


def _key_state(row: Row) -> str:
    return "retired" if row["retired_at"] else "current" if row["current"] else "valid"


def _key_made(given: Given, key: Row) -> str:
    kid = key["kid"]
    if key["secret"] is not None:
        return f"This is the secret of key {kid}, for Daedalus."
    if given["current"]:
        return f"Key {kid} now signs team JWTs."
    return f"Key {kid} was created; `pallas keys make-current {kid}` makes it sign."


KEYS = Group(LIFECYCLE)
_KEY = argument("key", "Id of the key (`kid`), as `list` shows it.")
_KEYS: Columns = {
    "key": "kid",
    "purpose": "purpose",
    "algorithm": "algorithm",
    "state": _key_state,
    "since": date("created_at"),
}
KEYS.add("list", "List keys, oldest first, with their purpose and state.", List("keys", _KEYS, "There are no keys."))
KEYS.add("show", "Show one key, without its secret.", Show("keys", "key", "kid", _KEYS), _KEY)
KEYS.add(
    "create",
    "Create a key. The secret of a key for per-turn JWTs is printed once and cannot be shown again.",
    Change(
        "POST keys",
        _key_made,
        body=lambda given: {name: given[name] for name in ("purpose", "algorithm", "current")},
        once="secret",
    ),
    argument(
        "purpose",
        "team: signs team JWTs, here. turn: signs per-turn JWTs, in a system that calls for its users.",
        Literal["team", "turn"],
    ),
    option("algorithm", "Signature algorithm. [default: team-lifecycle's setting]", Literal["HS256", "EdDSA"] | None),
    flag("current", "Sign new team JWTs with this key."),
)
KEYS.add(
    "make-current",
    "Sign new team JWTs with this key. JWTs signed with other keys stay valid.",
    Change("POST keys/{key}/current", "Key {key} now signs team JWTs."),
    _KEY,
)
KEYS.add(
    "retire",
    "Retire a key. Every JWT signed with it becomes invalid permanently.",
    Change("POST keys/{key}/retire", "Key {key} is retired: every JWT signed with it is now invalid."),
    _KEY,
    sure="every JWT signed with key {key} becomes invalid",
)
KEYS.add(
    "reseal",
    "Encrypt all keys with the first of PALLAS_FERNET_KEYS. The others can then be removed.",
    Change(
        "POST keys/reseal", "All keys are encrypted with the first of PALLAS_FERNET_KEYS.", answer={"resealed": True}
    ),
)
