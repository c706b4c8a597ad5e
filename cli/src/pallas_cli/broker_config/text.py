"""The configuration of users and TLS for nats-server. It has public keys only."""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from pallas_cli.broker_config.users import SYSTEM, BrokerUser

_ANSWERED_WITHIN = "1m"
"""How long a reply is allowed. The longest timeout of a request is 10 s."""


class PublicKeys(Protocol):
    """Knows the users' public keys."""

    def public_keys(self, name: str) -> Iterable[str]:
        """The keys by which a user may authenticate; none: it cannot connect."""
        ...


def users_text(users: Sequence[BrokerUser], keys: PublicKeys) -> str:
    """The blocks of all users with their subjects, and of the system account. Nobody else can connect."""
    own = ("authorization {", "  users: [", *_users(users, keys), "  ]", "}")
    return "\n".join((*own, "accounts {", "  $SYS: { users: [", *_system(keys), "  ] }", "}", ""))


def tls_text(certificate: Path, key: Path) -> str:
    """The block that requires TLS from the first byte."""
    lines = (
        f"  cert_file: {json.dumps(str(certificate))}",
        f"  key_file: {json.dumps(str(key))}",
        "  handshake_first: true",
    )
    return "\n".join(("tls {", *lines, "}", ""))


def _users(users: Iterable[BrokerUser], keys: PublicKeys) -> Iterator[str]:
    for user in users:
        for key in keys.public_keys(user.name):
            yield from _user(user, key)


def _system(keys: PublicKeys) -> Iterator[str]:
    """The users of the system account, which sees the servers and none of the streams' messages."""
    yield f"    # {SYSTEM}"
    yield from (f"    {{ nkey: {key} }}" for key in keys.public_keys(SYSTEM))


def _user(user: BrokerUser, public: str) -> Iterator[str]:
    from pallas_bus.access import inbox_prefix
    from pallas_turns.rights import rights_of

    rights = rights_of(user.service, user.hosted, of_workers=user.of_workers)
    yield f"    # {user.name}"
    yield f"    {{ nkey: {public}, permissions: {{"
    yield from _subjects("publish", rights.publish, rights.never)
    yield from _subjects("subscribe", (*rights.subscribe, f"{inbox_prefix(public)}.>"))
    if rights.answers:
        yield f'      allow_responses: {{ max: 1, expires: "{_ANSWERED_WITHIN}" }}'
    yield "    } }"


def _subjects(verb: str, allowed: Iterable[str], denied: Iterable[str] = ()) -> Iterator[str]:
    yield f"      {verb}: {{"
    for word, subjects in (("allow", allowed), ("deny", denied)):
        yield f"        {word}: ["
        yield from (f"          {json.dumps(subject)}" for subject in subjects)
        yield "        ]"
    yield "      }"
