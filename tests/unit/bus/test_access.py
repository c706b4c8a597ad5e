"""How a process connects to the broker: its seed, its inbox and its certificates."""

import nkeys
import pytest
from pydantic import SecretStr

from pallas_bus.access import Access, public_key
from pallas_contracts.errors import Rejected

SEED = nkeys.encode_seed(bytes(range(32)), nkeys.PREFIX_BYTE_USER).decode()


def test_without_a_seed_the_inbox_is_named_after_the_service() -> None:
    options = Access("nats://one:4222, nats://two:4222").options("registry")
    assert options == {"servers": ["nats://one:4222", "nats://two:4222"], "inbox_prefix": "_INBOX.registry"}


def test_with_a_seed_the_inbox_is_named_after_its_user() -> None:
    options = Access("nats://one:4222", SecretStr(SEED)).options("registry")
    assert options["inbox_prefix"] == f"_INBOX.{public_key(SEED)}"
    assert options["nkeys_seed_str"] == SEED


def test_neither_the_seed_nor_the_url_is_printed() -> None:
    printed = repr(Access("nats://me:hunter2@one:4222", SecretStr(SEED), "ca"))
    assert "hunter2" not in printed
    assert SEED not in printed


@pytest.mark.parametrize("seed", ["", "nonsense", "SU", SEED[:-4], SEED.lower()])
def test_an_invalid_seed_is_refused_without_being_repeated(seed: str) -> None:
    with pytest.raises(Rejected, match="cannot be read") as refused:
        public_key(seed)
    assert refused.value.code == "bad_settings"
    assert refused.value.__cause__ is None


def test_a_seed_that_is_not_of_a_user_is_refused() -> None:
    account = b"SA" + nkeys.encode_seed(bytes(32), 0)[2:]
    with pytest.raises(Rejected, match="not the seed of a user"):
        public_key(account.decode())


def test_an_invalid_certificate_is_refused() -> None:
    with pytest.raises(Rejected, match="certificates"):
        Access("nats://one:4222", ca="no certificate").options("registry")
