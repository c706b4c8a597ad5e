"""Names of pipelines, and whose a namespace is called."""

import pytest

from pallas_contracts.errors import Rejected
from pallas_contracts.turns import API_KEY_ID, Principal
from pipelines.storing.namespaces import Caller, hash_of, owner_of, read_name

HASH = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
PEER = Principal(id="127.0.0.1")
ALICE = Principal(type="user", id="usr_1", name="alice@acme.com")


def test_without_a_bearer_the_label_says_who_calls_and_else_the_address() -> None:
    labelled = Caller(PEER, "claude-code:alice@acme.com")
    assert labelled.identity == Principal(id="alice@acme.com")
    assert labelled.owner == Caller(Principal(id="10.0.0.1"), "cursor:alice@acme.com").owner
    assert Caller(PEER, "robot").identity == Principal(id="robot")
    assert Caller(PEER).identity == PEER


def test_with_a_bearer_the_label_changes_nothing_but_the_temporary_namespace() -> None:
    plain, labelled = Caller(ALICE), Caller(ALICE, "claude-code:bob@acme.com")
    assert plain.owner == labelled.owner == ALICE.token
    assert plain.namespaces("user") == labelled.namespaces("user")
    assert labelled.namespaces("agent")[0].startswith("agent:claude-code-")
    assert labelled.namespaces("agent") != Caller(Principal(type="user", id="b"), labelled.label).namespaces("agent")


def test_what_a_token_makes_is_its_users_and_what_it_made_before_stays_its_own() -> None:
    laptop, desktop = (Principal(type="token", id=each, name=each, user="ann") for each in ("tok_1", "tok_2"))
    before = laptop.model_copy(update={"user": None})
    assert Caller(laptop).owner == Caller(desktop, "a:bob").owner != Caller(before).owner
    assert Caller(laptop).namespaces("user")[0] == "user:ann"
    assert Caller(laptop).made(desktop)
    assert Caller(laptop).made(before)
    assert not Caller(desktop).made(before)
    assert not Caller(before).made(laptop)


def test_what_an_api_key_makes_is_that_of_the_user_whom_it_names_with_the_key() -> None:
    token = Principal(type="token", id="tok_1", user="ann")
    key, other = (Principal(type="token", id=f"{API_KEY_ID}0123abcd", user=user) for user in ("ann", "ben"))
    assert owner_of(key) == Principal(type="token", id=f"{key.id}/ann", name="ann")
    assert owner_of(token) == Principal(type="user", id="ann", name="ann")
    assert len({Caller(each).owner for each in (token, key, other)}) == 3
    for caller in (token, key, other, ALICE, PEER):
        assert owner_of(caller).label == caller.owner


def test_a_namespace_is_short_if_it_is_free() -> None:
    assert Caller(ALICE).namespaces("user") == [
        "user:alice",
        "user:alice@acme.com",
        f"user:alice@acme.com-{ALICE.token}",
    ]
    assert Caller(PEER, "claude-code:alice@acme.com").namespaces("agent")[0] == "agent:claude-code-6b90c2"
    for odd in ("Jürgen Müller/../x", "@", "", "a" * 500, "..", "-"):
        for namespace in (*Caller(PEER, f"a:{odd}").namespaces("user"), *Caller(PEER, odd).namespaces("agent")):
            assert str(read_name(f"{namespace}/x")) == f"{namespace}/x"


@pytest.mark.parametrize(
    ("given", "namespace", "part"),
    [
        ("my-pipeline", "", "my-pipeline"),
        ("temp-1", "", "temp-1"),
        (HASH, "", HASH),
        ("shared/a.b_c", "shared", "a.b_c"),
        ("agent/x", "agent", "x"),
        ("user:alice@acme.com/x", "user:alice@acme.com", "x"),
        ("agent:claude-code-1f3a9c/x", "agent:claude-code-1f3a9c", "x"),
        ("user%3Aalice%2Fx", "user:alice", "x"),
        ("n" * 128, "", "n" * 128),
    ],
)
def test_names_with_and_without_a_namespace(given: str, namespace: str, part: str) -> None:
    assert (read_name(given).namespace, read_name(given).part) == (namespace, part)


@pytest.mark.parametrize(
    "given",
    ["", "/", "a b", "shared/", "/x", "team/x", "shared/a/b", "user:/x", "ü", "..", "n" * 129, "shared/..", "x\n"],
)
def test_what_cannot_be_a_name_is_refused_with_what_can(given: str) -> None:
    with pytest.raises(Rejected, match="1 to 128 of the characters") as rejected:
        read_name(given)
    assert rejected.value.code == "bad_name"


def test_a_hash_has_its_prefix_and_without_it_is_a_name() -> None:
    assert hash_of(f"sha256:{HASH}") == hash_of(f"sha256%3A{HASH}") == HASH
    assert {hash_of(ref) for ref in (HASH, f"sha256:{HASH.upper()}", f"sha256:{HASH}0", "x")} == {None}
