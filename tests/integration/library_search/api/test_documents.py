"""Admins upload and delete documents."""

import asyncio
import uuid

import httpx
import pytest
from tests.integration.library_search.files import a_pdf
from tests.integration.library_search.lab import DOCUMENTS, PASSWORD, Search, StandIn, Truth


@pytest.fixture
async def shelf(search: Search, truth: Truth, callers: StandIn) -> str:
    """A library that `ann` may read."""
    await truth.publish("created", "shelf")
    callers.libraries["ann"] = ("shelf",)
    return "shelf"


async def test_uploading_the_same_file_changes_nothing_and_another_one_replaces_it(search: Search, shelf: str) -> None:
    done = [await search.put(shelf, "a.md", text) for text in ("# One\n", "# One\n", "# Two\n")]
    assert [answer.status_code for answer in done] == [201, 200, 200]
    assert [answer.json()["status"] for answer in done] == ["created", "unchanged", "updated"]
    assert len({answer.json()["document"] for answer in done}) == 1
    assert (await search.call("ann", "search", query="one"))["results"] == []
    assert (await search.call("ann", "search", query="two"))["results"][0]["title"] == "Two"
    [item] = (await search.call("ann", "list_items"))["items"]
    assert (item["collection"], item["path"], item["chunks"]) == ("default", "a.md", 1)


async def test_a_pdf_is_read_page_by_page(search: Search, shelf: str) -> None:
    await search.document(shelf, "book.pdf", a_pdf("Cats sleep.", "Dogs bark.", title="A book"))
    [passage] = (await search.call("ann", "search", query="bark"))["results"]
    assert (passage["page"], passage["title"], passage["text"]) == (2, "A book", "Dogs **bark**.")


async def test_a_bad_file_is_refused_with_the_reason(search: Search, shelf: str) -> None:
    refusals: list[tuple[str, bytes, str]] = [
        ("a.pdf", b"%PDF-1.4 nonsense", "the file is not a readable PDF"),
        ("a.pdf", a_pdf("Secret.", password="x"), "the PDF needs a password"),
        ("a.pdf", a_pdf(""), "the file has no text (a scanned PDF"),
        ("a.md", b"\xff", "the file is not UTF-8 text (byte 0)"),
        ("a.txt", b"", "the file has no text"),
        ("a.exe", b"MZ", "path: files with the ending '.exe' are not supported"),
        ("", b"x", "path: is required"),
        ("a\n.txt", b"x", "path: must be one line"),
        ("x" * 1001 + ".txt", b"x", "path: must have at most 1000"),
    ]
    for path, content, reason in refusals:
        refused = await search.put(shelf, path, content)
        assert refused.status_code == 422
        assert reason in refused.json()["error"]
    assert (await search.call("ann", "list_items"))["items"] == []


async def test_an_upload_waits_for_the_event_of_a_new_library(
    search: Search, truth: Truth, monkeypatch: pytest.MonkeyPatch
) -> None:
    putting = asyncio.create_task(search.put("young", "a.txt", "Text."))
    await truth.publish("created", "young")
    assert (await putting).status_code == 201
    monkeypatch.setattr("library_search.handlers.ingest_document.KNOWN_WITHIN", 0.2)
    unknown = await search.put("nowhere", "a.txt", "Text.")
    assert (unknown.status_code, unknown.json()["code"]) == (404, "no_library")


async def test_concurrent_uploads_to_one_path_leave_one_document(search: Search, shelf: str) -> None:
    texts = [f"Text number{number}." for number in range(6)]
    done = await asyncio.gather(*(search.put(shelf, "a.txt", text) for text in texts))
    assert {answer.status_code for answer in done} <= {200, 201}
    [item] = (await search.call("ann", "list_items"))["items"]
    text = (await search.call("ann", "get_document", document=item["document"]))["text"]
    found = (await search.call("ann", "search", query="text"))["results"]
    assert [passage["document"] for passage in found] == [item["document"]]
    assert text in texts


async def test_a_deleted_document_is_no_longer_found(search: Search, shelf: str) -> None:
    document = await search.document(shelf, "a.txt", "Cats.")
    assert (await search.admin.delete(f"{DOCUMENTS}/other/{document}")).status_code == 404
    assert (await search.admin.delete(f"{DOCUMENTS}/{shelf}/{document}")).status_code == 204
    assert (await search.admin.delete(f"{DOCUMENTS}/{shelf}/{document}")).status_code == 404
    assert (await search.admin.delete(f"{DOCUMENTS}/{shelf}/{uuid.uuid4()}")).status_code == 404
    assert (await search.admin.delete(f"{DOCUMENTS}/{shelf}/nonsense")).status_code == 404
    assert (await search.call("ann", "search", query="cats"))["results"] == []


async def test_every_admin_path_is_401_without_the_account(search: Search) -> None:
    for auth in (None, ("admin", "wrong"), ("root", PASSWORD), ("", "")):
        async with httpx.AsyncClient(base_url=search.base, auth=auth, trust_env=False, verify=False) as http:
            for path in (f"{DOCUMENTS}/x?path=a.txt", "/admin/", "/admin/nothing"):
                refused = await http.put(path, content=b"x")
                assert (refused.status_code, refused.json()["code"]) == (401, "unauthorized")
                assert refused.headers["www-authenticate"].startswith("Basic ")
