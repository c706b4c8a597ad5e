"""The format of backups: encrypted files with checksums, a manifest that comes last, retention, and keys."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import BinaryIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyrage import x25519
from tests.requirements import requirement

from pallas_cli.backup.keys import differences, fingerprints, make_identity, read_identities, read_recipients
from pallas_cli.backup.sealing import Damaged, Sealed, check, seal, unseal
from pallas_cli.backup.store import MANIFEST, Manifest, Store, new_id, open_store, parts_in_order, prune
from pallas_cli.commands.backup import require_agreement
from pallas_cli.refused import Refused
from pallas_contracts.catalog import BUCKETS, DATABASES
from pallas_contracts.contract import Saved

IDENTITY = x25519.Identity.generate()
NOW = datetime(2026, 11, 24, 6, tzinfo=UTC)


def writing(*chunks: bytes, fails: bool = False) -> Callable[[BinaryIO], Awaitable[None]]:
    """Writes these chunks, and may fail then."""

    async def write(sink: BinaryIO) -> None:
        for chunk in chunks:
            await asyncio.to_thread(sink.write, chunk)
        if fails:
            raise Refused("pg_dump has failed")

    return write


async def everything(source: BinaryIO) -> bytes:
    return await asyncio.to_thread(source.read)


def a_store(folder: Path) -> Store:
    return open_store(str(folder), make=True)


def a_backup(store: Store, began: datetime, *, finished: bool = True) -> str:
    """Leave a backup in the store."""
    backup = new_id(began)
    store.put(f"{backup}/stream-TURN_LOG.age", b"sealed")
    if finished:
        manifest = Manifest(id=backup, release="1", began_at=began, ended_at=began, recipients=(), parts=())
        store.put(f"{backup}/{MANIFEST}", manifest.model_dump_json().encode())
    return backup


@settings(deadline=None, max_examples=20)
@given(chunks=st.lists(st.binary(max_size=100_000), max_size=6))
def test_what_is_sealed_is_opened_again(chunks: list[bytes], tmp_path_factory: pytest.TempPathFactory) -> None:
    store = a_store(tmp_path_factory.mktemp("store"))

    async def there_and_back() -> bytes:
        sealed = await seal(store, "b/x.age", [IDENTITY.to_public()], writing(*chunks))
        assert sealed.plain == sum(map(len, chunks))
        return await unseal(store, "b/x.age", sealed, [IDENTITY], everything)

    assert asyncio.run(there_and_back()) == b"".join(chunks)


async def test_a_file_larger_than_all_buffers_is_sealed_and_its_text_is_not_in_the_store(tmp_path: Path) -> None:
    store, chunk = a_store(tmp_path), b"a secret of the log " * 50_000
    sealed = await seal(store, "b/x.age", [IDENTITY.to_public()], writing(*[chunk] * 20))
    assert sealed.plain == 20 * len(chunk)
    assert b"a secret of the log" not in (tmp_path / "b/x.age").read_bytes()
    assert await unseal(store, "b/x.age", sealed, [IDENTITY], everything) == chunk * 20


async def test_when_the_producer_fails_nothing_is_stored_and_its_error_is_raised(tmp_path: Path) -> None:
    store = a_store(tmp_path)
    with pytest.raises(Refused, match="pg_dump has failed"):
        await seal(store, "b/x.age", [IDENTITY.to_public()], writing(b"x" * 2_000_000, fails=True))
    assert store.read("b/x.age") is None


def test_what_an_interrupted_backup_has_left_in_a_folder_is_removed_as_a_whole(tmp_path: Path) -> None:
    store = a_store(tmp_path / "store")
    half = tmp_path / "store" / new_id(NOW - timedelta(days=400)) / "database-workspaces.age#1"
    half.parent.mkdir()
    half.touch()
    assert prune(store, 1) == [half.parent.name]
    assert list((tmp_path / "store").iterdir()) == []


def test_a_folder_is_made_for_a_new_backup_only(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="no such folder"):
        open_store(str(tmp_path / "typo"))
    assert not (tmp_path / "typo").exists()


async def test_a_damaged_a_cut_and_a_missing_file_are_found_with_and_without_the_key(tmp_path: Path) -> None:
    store, path = a_store(tmp_path), tmp_path / "b/x.age"
    sealed = await seal(store, "b/x.age", [IDENTITY.to_public()], writing(b"x" * 300_000))
    whole = path.read_bytes()
    for broken in (whole[:-1], whole[:1000], whole[:150_000] + b"!" + whole[150_001:], b""):
        path.write_bytes(broken)
        with pytest.raises(Damaged):
            await check(store, "b/x.age", sealed)
        with pytest.raises(Damaged):
            await unseal(store, "b/x.age", sealed, [IDENTITY], everything)
    path.unlink()
    with pytest.raises(Refused):
        await check(store, "b/x.age", sealed)


async def test_another_key_opens_nothing(tmp_path: Path) -> None:
    store = a_store(tmp_path)
    sealed = await seal(store, "b/x.age", [IDENTITY.to_public()], writing(b"text"))
    with pytest.raises(Damaged, match="cannot be decrypted"):
        await unseal(store, "b/x.age", sealed, [x25519.Identity.generate()], everything)


async def test_another_file_of_the_same_recipient_is_found_by_its_checksum(tmp_path: Path) -> None:
    store = a_store(tmp_path)
    sealed = await seal(store, "b/x.age", [IDENTITY.to_public()], writing(b"text"))
    other = Sealed(sealed.size, "0" * 64, sealed.plain)
    with pytest.raises(Damaged, match="checksum"):
        await unseal(store, "b/x.age", other, [IDENTITY], everything)


@requirement("K-ops-1")
def test_a_backup_without_its_manifest_is_not_listed(tmp_path: Path) -> None:
    store = a_store(tmp_path)
    good, half = a_backup(store, NOW), a_backup(store, NOW + timedelta(hours=1), finished=False)
    assert store.finished() == [good]
    assert store.unfinished() == [half]
    with pytest.raises(Refused, match="has no backup"):
        store.manifest(half)


def test_the_newest_are_kept_and_what_was_interrupted_goes_a_day_later(tmp_path: Path) -> None:
    store, now = a_store(tmp_path), datetime.now(UTC)
    old, recent, last = (a_backup(store, now - timedelta(days=days)) for days in (3, 2, 0))
    given_up = a_backup(store, now - timedelta(days=2), finished=False)
    being_made = a_backup(store, now, finished=False)
    assert set(prune(store, 2, dry=True)) == set(prune(store, 2)) == {old, given_up}
    assert store.finished() == [recent, last]
    assert store.unfinished() == [being_made]


def test_everything_but_what_expires_is_saved_and_what_refers_to_a_turn_comes_before_it() -> None:
    order = [name for _, name in parts_in_order()]
    assert len(set(order)) == len(order)
    assert {f"KV_{bucket.name}" for bucket in BUCKETS if bucket.saved is not Saved.NEVER} < set(order)
    first, last = order.index("TURN_QUEUE"), order.index("TURN_LOG")
    assert max(order.index(name) for name in ("CHANGES", "WORKSPACES")) < order.index(next(iter(DATABASES.values())))
    assert all(order.index(name) < first for name in (*DATABASES.values(), "KV_fleet_agents", "KV_suspensions"))
    assert first < last < min(order.index("TURN_OBJECTS"), order.index("DEAD_LETTERS"))


def test_a_key_that_is_missing_or_another_one_is_named_and_no_fingerprint_shows_it(tmp_path: Path) -> None:
    for name in ("fernet-keys", "secret-key", "log-key"):
        (tmp_path / name).write_text(f"the {name}\n")
    kept = fingerprints("backup-1", tmp_path)
    assert list(differences("backup-1", kept, tmp_path)) == []
    assert fingerprints("backup-2", tmp_path) != kept
    (tmp_path / "log-key").write_text("another one")
    (tmp_path / "secret-key").unlink()
    missing, other = differences("backup-1", kept, tmp_path)
    assert "secret-key (or PALLAS_SECRET_KEY) is missing" in missing
    assert "log-key (or PALLAS_LOG_KEY) is another one" in other
    assert "another one" not in str(kept)


def test_a_key_for_backups_is_made_once_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / "identity"
    public = make_identity(path)
    [identity] = read_identities(path)
    assert str(identity.to_public()) == public
    assert [str(each) for each in read_recipients([f"{public}, {public}"])] == [public, public]
    assert path.stat().st_mode & 0o077 == 0
    with pytest.raises(Refused, match="exists"):
        make_identity(path)


@pytest.mark.parametrize("given", [(), ("",), ("age1nonsense",), ("AGE-SECRET-KEY-1",)])
def test_a_recipient_that_is_none_is_refused_without_repeating_it(given: tuple[str, ...]) -> None:
    with pytest.raises(Refused) as refused:
        read_recipients(given)
    assert not any(word and word in str(refused.value) for word in given)


@pytest.mark.parametrize("where", ["nonsense://x/y", "/proc/nowhere/at/all"])
def test_a_store_that_cannot_be_used_is_refused(where: str) -> None:
    with pytest.raises(Refused, match="backups cannot be stored there"):
        open_store(where, make=True)


@pytest.mark.parametrize(("replace", "code", "asks"), [(False, 1, "--replace and --yes"), (True, 2, "pass --yes")])
def test_what_is_replaced_is_named_and_has_to_be_confirmed(
    replace: bool, code: int, asks: str, capsys: pytest.CaptureFixture[str]
) -> None:
    agree = partial(require_agreement, replace=replace, yes=False, as_json=True)
    agree([])
    with pytest.raises(Refused) as refused:
        agree(["stream TURN_LOG with 3 messages"])
    assert "stream TURN_LOG with 3 messages" in (*refused.value.lines, *capsys.readouterr().err.splitlines())
    assert (asks in refused.value.lines[-1], refused.value.code) == (True, code)
    require_agreement(["database workspaces"], replace=True, yes=True, as_json=True)
