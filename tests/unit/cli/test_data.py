"""The data folder: its lock, and the secrets in it."""

from pathlib import Path

import pytest

from pallas_cli.refused import Refused
from pallas_cli.stack.data import broker_key, kept_secret, locked

BROKER_KEY = "PALLAS_BROKER_KEY"


@pytest.fixture(autouse=True)
def no_key_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment gives the broker no key."""
    for name in (BROKER_KEY, f"{BROKER_KEY}_FILE"):
        monkeypatch.delenv(name, raising=False)


def fill_store(data: Path) -> Path:
    """The broker has stored something."""
    store = data / "nats" / "store"
    (store / "jetstream").mkdir(parents=True)
    return store


def test_a_data_folder_in_use_is_refused_with_the_holder(tmp_path: Path) -> None:
    with locked(tmp_path / "data"), pytest.raises(Refused, match=r"in use by another instance \(pid \d+\)"):  # noqa: SIM117
        with locked(tmp_path / "data"):
            pass


def test_a_released_data_folder_can_be_used_again(tmp_path: Path) -> None:
    for _ in range(2):
        with locked(tmp_path / "data") as folder:
            assert folder.is_absolute()


def test_a_data_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Refused, match="cannot be used"), locked(tmp_path / "file" / "data"):
        pass


def test_a_secret_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    first = kept_secret(tmp_path, "word")
    assert len(first) == 64
    assert kept_secret(tmp_path, "word", lambda: "another") == first
    assert kept_secret(tmp_path, "other") != first
    secrets = tmp_path / "secrets"
    assert {path.name for path in secrets.iterdir()} == {"word", "other"}
    assert all(path.stat().st_mode & 0o077 == 0 for path in (secrets, *secrets.iterdir()))


def test_a_half_written_secret_is_replaced_by_a_new_one(tmp_path: Path) -> None:
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / ".word.new").write_text("hal")
    assert len(kept_secret(tmp_path, "word")) == 64
    assert [path.name for path in (tmp_path / "secrets").iterdir()] == ["word"]


def test_a_store_keeps_the_key_that_it_was_made_with(tmp_path: Path) -> None:
    key, store = broker_key(tmp_path), fill_store(tmp_path)
    assert broker_key(tmp_path) == key
    path = tmp_path / "secrets" / "broker-key"
    path.write_text(f"  {key}\n")
    assert broker_key(tmp_path) == key
    path.unlink()
    with pytest.raises(Refused, match=rf"is missing: put {path} back, or set {BROKER_KEY}.* remove {store}"):
        broker_key(tmp_path)
    assert not path.exists()
    path.write_text("another")
    with pytest.raises(Refused, match=rf"another key than {path}.* remove {store}"):
        broker_key(tmp_path)
    path.write_text(" \n")
    with pytest.raises(Refused, match=f"is empty: {path}"):
        broker_key(tmp_path)


def test_a_store_whose_key_was_given_is_not_opened_with_a_kept_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(BROKER_KEY, "given")
    assert broker_key(tmp_path) == "given"
    fill_store(tmp_path)
    monkeypatch.delenv(BROKER_KEY)
    with pytest.raises(Refused, match="is missing"):
        broker_key(tmp_path)
    monkeypatch.setenv(BROKER_KEY, "another")
    with pytest.raises(Refused, match=f"another key than {BROKER_KEY}"):
        broker_key(tmp_path)
    monkeypatch.setenv(BROKER_KEY, " \n")
    with pytest.raises(Refused, match=f"is empty: {BROKER_KEY}"):
        broker_key(tmp_path)
    monkeypatch.delenv(BROKER_KEY)
    (tmp_path / "file").write_text("given\n")
    monkeypatch.setenv(f"{BROKER_KEY}_FILE", str(tmp_path / "file"))
    assert broker_key(tmp_path) == "given"
    monkeypatch.setenv(f"{BROKER_KEY}_FILE", str(tmp_path / "no file"))
    with pytest.raises(Refused, match=f"{BROKER_KEY}: the file .* cannot be read"):
        broker_key(tmp_path)


def test_a_removed_store_may_have_a_new_key_and_one_without_a_fingerprint_gets_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, store = broker_key(tmp_path), fill_store(tmp_path)
    (store / "jetstream").rmdir()
    (tmp_path / "secrets" / "broker-key").unlink()
    second = broker_key(tmp_path)
    assert second != first
    (store / "jetstream").mkdir()
    (tmp_path / "nats" / "store-key.sha256").unlink()
    assert broker_key(tmp_path) == second
    monkeypatch.setenv(BROKER_KEY, first)
    with pytest.raises(Refused, match="another key"):
        broker_key(tmp_path)
