"""A backup whose manifest was changed is found, by the keys of the installation that were there when it was made."""

import json
from datetime import timedelta
from pathlib import Path

import pytest
from tests.requirements import requirement
from tests.unit.cli.test_backup import IDENTITY, NOW, a_store, writing

from pallas_cli.backup.create import verify
from pallas_cli.backup.keys import fingerprints, make_codes, who_vouches
from pallas_cli.backup.sealing import Damaged, seal
from pallas_cli.backup.store import CODES, MANIFEST, Manifest, Part, Store, new_id, path_of
from pallas_cli.refused import Refused

NAMES = ["log-key"]  # one, since deriving from a key is slow on purpose


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the keys of an installation."""
    folder = tmp_path_factory.mktemp("secrets")
    for name in NAMES:
        (folder / name).write_text(f"the {name}")
    return folder


async def a_backup(store: Store, keys: Path | None, text: bytes = b"log", hour: int = 0) -> Manifest:
    """A whole backup of one stream."""
    began = NOW + timedelta(hours=hour)
    backup = new_id(began)
    sealed = await seal(store, path_of(backup, "stream", "TURN_LOG"), [IDENTITY.to_public()], writing(text))
    size, digest, plain = sealed.size, sealed.sha256, sealed.plain
    part = Part(kind="stream", name="TURN_LOG", saved_at=began, size=size, sha256=digest, plain=plain)
    told = fingerprints(backup, keys)
    manifest = Manifest(id=backup, release="1", began_at=began, ended_at=began, recipients=(), parts=(part,), keys=told)
    put(store, manifest)
    store.put(f"{backup}/{CODES}", make_codes(backup, manifest.model_dump_json().encode(), keys))
    return manifest


def put(store: Store, manifest: Manifest) -> Manifest:
    """Write the manifest, and read it back as a command does."""
    store.put(f"{manifest.id}/{MANIFEST}", manifest.model_dump_json().encode())
    return store.manifest(manifest.id)


@requirement("K-ops-1")
async def test_every_key_vouches_for_a_manifest_that_was_not_changed(tmp_path: Path, keys: Path) -> None:
    store = a_store(tmp_path)
    manifest = await a_backup(store, keys)
    assert who_vouches(store, manifest, keys) == NAMES
    assert who_vouches(store, manifest, None) == []
    assert not any("the log-key" in path.read_text("latin-1") for path in (tmp_path / manifest.id).iterdir())


@requirement("K-ops-1")
async def test_a_file_of_another_backup_is_found_also_when_the_manifest_has_its_checksum(
    tmp_path: Path, keys: Path
) -> None:
    store = a_store(tmp_path)
    old, new = await a_backup(store, keys, b"old"), await a_backup(store, keys, b"new", hour=1)
    files = [tmp_path / path_of(each.id, "stream", "TURN_LOG") for each in (old, new)]
    files[1].write_bytes(files[0].read_bytes())
    with pytest.raises(Refused, match="checksum"):
        await verify(store, new, [IDENTITY], print)
    changed = put(store, new.model_copy(update={"parts": old.parts}))
    await verify(store, changed, [IDENTITY], print)  # the checksum is right
    with pytest.raises(Damaged, match="was changed after the backup was made"):
        who_vouches(store, changed, keys)


async def test_the_manifest_of_another_backup_is_refused(tmp_path: Path, keys: Path) -> None:
    store = a_store(tmp_path)
    old, new = await a_backup(store, keys), await a_backup(store, keys, hour=1)
    for name in (MANIFEST, CODES):
        store.put(f"{new.id}/{name}", store.read(f"{old.id}/{name}") or b"")
    with pytest.raises(Refused, match="is that of"):
        store.manifest(new.id)
    renamed = put(store, old.model_copy(update={"id": new.id, "keys": new.keys}))
    with pytest.raises(Damaged, match="was changed after the backup was made"):
        who_vouches(store, renamed, keys)


async def test_without_codes_or_with_those_of_other_keys_nobody_vouches(tmp_path: Path, keys: Path) -> None:
    store, others = a_store(tmp_path), tmp_path / "others"
    others.mkdir()
    (others / "log-key").write_text("the key of an attacker")
    manifest = await a_backup(store, keys)
    forged = put(store, manifest.model_copy(update={"parts": (), "keys": fingerprints(manifest.id, others)}))
    text = store.read(f"{manifest.id}/{MANIFEST}") or b""
    for codes in (make_codes(manifest.id, text, others), b"{}"):
        store.put(f"{manifest.id}/{CODES}", codes)
        assert who_vouches(store, forged, keys) == []
    store.put(f"{manifest.id}/{CODES}", json.dumps({"log-key": "ä"}).encode())
    assert who_vouches(store, forged, keys) == []
    for broken in (b"[1]", b"no JSON", b'{"log-key": 1}'):
        store.put(f"{manifest.id}/{CODES}", broken)
        with pytest.raises(Damaged, match="no codes of keys"):
            who_vouches(store, forged, keys)
