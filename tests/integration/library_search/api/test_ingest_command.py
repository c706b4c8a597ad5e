"""`pallas libraries ingest` against a running service."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.embedded import free_port
from tests.integration.library_search.lab import PASSWORD, Search, StandIn, Truth
from tests.integration.pallas_command import Pallas

_RUN = "import sys; from pallas_cli.main import app; sys.argv[0] = 'pallas'; app()"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Some documents, one of which cannot be read."""
    (tmp_path / "docs" / "deep").mkdir(parents=True)
    (tmp_path / "docs" / "one.md").write_text("# One\nCats sleep.\n")
    (tmp_path / "docs" / "deep" / "two ü.txt").write_text("Dogs bark.\n", "utf-8")
    (tmp_path / "docs" / "bad.txt").write_bytes(b"\xff")
    (tmp_path / "docs" / "code.py").write_text("pass")
    return tmp_path / "docs"


async def run_ingest(*words: str) -> tuple[int, str, str]:
    """Run the command. Returns exit code, stdout and stderr."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _RUN, "libraries", "ingest", *words),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PALLAS_ADMIN_PASSWORD": PASSWORD},
    )
    out, err = await process.communicate()
    return process.returncode or 0, out.decode(), err.decode()


async def test_ingest_reports_each_file_and_a_second_run_stores_only_changed_files(
    search: Search, truth: Truth, callers: StandIn, folder: Path
) -> None:
    await truth.publish("created", "shelf")
    callers.libraries["ann"] = ("shelf",)
    words = (str(folder), "--library", "shelf", "--collection", "docs", "--url", search.base)
    code, out, err = await run_ingest(*words)
    assert (code, err) == (1, "")
    *lines, total = out.splitlines()
    assert sorted(lines) == [
        "created   deep/two ü.txt (1 chunk)",
        "created   one.md (1 chunk)",
        "failed    bad.txt: the file is not UTF-8 text (byte 0)",
    ]
    assert total == "2 created, 1 failed; 1 skipped: no documents"
    items = (await search.call("ann", "list_items"))["items"]
    assert [(item["collection"], item["path"]) for item in items] == [("docs", "deep/two ü.txt"), ("docs", "one.md")]

    (folder / "bad.txt").unlink()
    (folder / "one.md").write_text("# One\nCats hunt.\n")
    code, out, err = await run_ingest(*words, "--json")
    assert (code, err) == (0, "")
    report: dict[str, Any] = json.loads(out)
    assert {name: report[name] for name in ("library", "collection", "created", "updated", "unchanged", "failed")} == {
        "library": "shelf",
        "collection": "docs",
        "created": 0,
        "updated": 1,
        "unchanged": 1,
        "failed": 0,
    }
    assert [(file["path"], file["status"]) for file in report["files"]] == [
        ("deep/two ü.txt", "unchanged"),
        ("one.md", "updated"),
    ]
    assert report["skipped"] == ["code.py"]


async def test_an_error_that_prevents_ingest_is_reported_in_one_line(
    search: Search, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("library_search.handlers.ingest_document.KNOWN_WITHIN", 0.2)
    pallas = Pallas({"PALLAS_ADMIN_PASSWORD": PASSWORD}, folder)
    ingest = ("libraries", "ingest", str(folder), "--library")
    unknown = await pallas.refused(*ingest, "nowhere", "--url", search.base)
    assert unknown == ["pallas: there is no library 'nowhere'"]
    [away] = await pallas.refused(*ingest, "x", "--url", f"http://127.0.0.1:{free_port()}", code=3)
    assert "cannot be reached: no connection; is `pallas up` running?" in away
    pallas.environ["PALLAS_ADMIN_PASSWORD"] = "wrong"
    wrong = await pallas.refused(*ingest, "x", "--url", search.base)
    assert wrong == ["pallas: the password of the account `admin` is wrong (PALLAS_ADMIN_PASSWORD, --data)"]
