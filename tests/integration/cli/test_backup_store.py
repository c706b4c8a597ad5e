"""Backups in an S3-compatible store: a server of moto, over HTTP."""

from collections.abc import Generator
from pathlib import Path

import httpx
import pytest
from pyrage import x25519
from tests.embedded import free_port
from tests.unit.cli.test_backup import NOW, a_backup, everything, writing

from pallas_cli.backup.sealing import check, seal, unseal
from pallas_cli.backup.store import open_store, prune
from pallas_cli.refused import Refused


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Generator[str]:
    """The address of a folder in a bucket."""
    from moto.server import ThreadedMotoServer  # each process that collects tests would import 500 modules

    port = free_port()
    server = ThreadedMotoServer("127.0.0.1", port, verbose=False)
    server.start()
    given = {
        "AWS_ENDPOINT": f"http://127.0.0.1:{port}",
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
    }
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    assert httpx.put(f"{given['AWS_ENDPOINT']}/backups", verify=False).is_success
    yield "s3://backups/pallas"
    server.stop()


async def test_files_of_several_parts_go_to_an_object_store_and_back(s3: str) -> None:
    store, identity, chunk = open_store(s3), x25519.Identity.generate(), bytes(range(256)) * 4096
    backup = a_backup(store, NOW)
    sealed = await seal(store, f"{backup}/big.age", [identity.to_public()], writing(*[chunk] * 12))
    await check(store, f"{backup}/big.age", sealed)
    assert await unseal(store, f"{backup}/big.age", sealed, [identity], everything) == chunk * 12
    with pytest.raises(Refused, match="pg_dump has failed"):
        await seal(store, "failed/x.age", [identity.to_public()], writing(*[chunk] * 12, fails=True))
    newer = a_backup(store, NOW.replace(hour=7))
    assert store.finished() == [backup, newer]
    assert store.unfinished() == []
    assert prune(store, 1) == [backup]
    assert store.finished() == [newer]
    with pytest.raises(Refused, match=r"404 Not Found \(NoSuchBucket\)$"):
        open_store("s3://another/pallas").finished()


def test_a_store_that_does_not_answer_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, value in {"AWS_ENDPOINT": "http://127.0.0.1:1", "AWS_ALLOW_HTTP": "true", "AWS_REGION": "x"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "very secret")
    with pytest.raises(Refused) as refused:
        open_store("s3://backups/pallas").finished()
    assert "very secret" not in str(refused.value)
