"""The configuration of users and TLS for nats-server. It has public keys only."""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from pallas_cli.broker_config.users import SYSTEM, BrokerUser, Seeds

_ANSWERED_WITHIN = "1m"
"""How long a reply is allowed. The longest timeout of a request is 10 s."""


def users_text(users: Sequence[BrokerUser], seeds: Seeds) -> str:
    """The blocks of all users with their subjects, and of the system account. Nobody else can connect."""
    own = ("authorization {", "  users: [", *_users(users, seeds), "  ]", "}")
    return "\n".join((*own, "accounts {", "  $SYS: { users: [", *_system(seeds), "  ] }", "}", ""))


def tls_text(certificate: Path, key: Path) -> str:
    """The block that requires TLS from the first byte."""
    lines = (
        f"  cert_file: {json.dumps(str(certificate))}",
        f"  key_file: {json.dumps(str(key))}",
        "  handshake_first: true",
    )
    return "\n".join(("tls {", *lines, "}", ""))


def _users(users: Iterable[BrokerUser], seeds: Seeds) -> Iterator[str]:
    from pallas_bus.transport.access import public_key

    for user in users:
        for seed in seeds.valid(user.name):
            yield from _user(user, public_key(seed))


def _system(seeds: Seeds) -> Iterator[str]:
    """The users of the system account, which sees the servers and none of the streams' messages."""
    from pallas_bus.transport.access import public_key

    yield f"    # {SYSTEM}"
    yield from (f"    {{ nkey: {public_key(seed)} }}" for seed in seeds.valid(SYSTEM))


def _user(user: BrokerUser, public: str) -> Iterator[str]:
    from pallas_bus.rights import rights_of
    from pallas_bus.transport.access import inbox_prefix

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
