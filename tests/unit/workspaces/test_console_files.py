"""The files of the console, as browsers get and keep them."""

import gzip
from collections.abc import AsyncGenerator
from pathlib import Path

import httpx
import pytest

from workspaces.http.console import BUNDLE, CONTENT_POLICY, ROOT, SOURCES, Console, with_security_headers

PAGE = '<!doctype html><script type="module" src="/assets/app.js"></script>'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small console, whose changes are seen at once."""
    monkeypatch.setattr("workspaces.http.console.READ_SECONDS", 0.0)
    (tmp_path / "views").mkdir()
    (tmp_path / "index.html").write_text(PAGE)
    (tmp_path / "app.js").write_text("import './views/a.js';\n" * 100)
    (tmp_path / "views" / "a.js").write_text("1")
    (tmp_path.parent / "secret").write_text("s")
    return tmp_path


@pytest.fixture
async def client(folder: Path) -> AsyncGenerator[httpx.AsyncClient]:
    """A browser."""
    transport = httpx.ASGITransport(with_security_headers(Console(folder)))
    async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
        yield client


async def versioned(client: httpx.AsyncClient) -> str:
    """The address of `app.js` in the page."""
    return (await client.get("/")).text.partition('src="')[2].partition('"')[0]


@pytest.mark.parametrize("path", ["/", "/workspaces/a/settings", "/login", "/index.html", "/assets", "/apiary"])
async def test_every_other_path_is_the_page(client: httpx.AsyncClient, path: str) -> None:
    page = await client.get(path)
    assert page.status_code == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["cache-control"] == "no-cache"


async def test_pages_may_load_nothing_from_elsewhere(client: httpx.AsyncClient) -> None:
    for path in ("/", "/assets/app.js", "/assets/none"):
        headers = (await client.get(path)).headers
        assert headers["content-security-policy"] == CONTENT_POLICY
        assert (headers["x-content-type-options"], headers["referrer-policy"]) == ("nosniff", "no-referrer")
    assert "unsafe" not in CONTENT_POLICY


async def test_browsers_keep_files_until_one_of_them_changes(client: httpx.AsyncClient, folder: Path) -> None:
    path = await versioned(client)
    kept = await client.get(path)
    assert kept.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert kept.headers["content-type"] == "text/javascript; charset=utf-8"
    (folder / "views" / "a.js").write_text("22")
    assert await versioned(client) != path
    old = await client.get(path)
    assert (old.status_code, old.headers["cache-control"]) == (200, "no-cache")


async def test_a_file_that_did_not_change_is_not_sent_again(client: httpx.AsyncClient) -> None:
    for path in ("/", "/assets/app.js"):
        first = await client.get(path)
        again = await client.get(path, headers={"if-none-match": first.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")


async def test_files_are_packed_for_those_who_can_unpack(client: httpx.AsyncClient, folder: Path) -> None:
    client.headers["accept-encoding"] = "identity"
    plain = await client.get("/assets/app.js")
    assert "content-encoding" not in plain.headers
    async with client.stream("GET", "/assets/app.js", headers={"accept-encoding": "gzip"}) as packed:
        content = b"".join([part async for part in packed.aiter_raw()])
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.headers["vary"] == "accept-encoding"
    assert gzip.decompress(content) == plain.content
    assert len(content) < len(plain.content) / 5


@pytest.mark.parametrize(
    "path",
    [
        "/assets/none.js",
        "/assets/%2e%2e/secret",
        "/assets//etc/passwd",
        "/assets/views",
        "/assets/",
    ],
)
async def test_what_is_no_file_of_the_console_is_not_found(client: httpx.AsyncClient, path: str) -> None:
    answer = await client.get(httpx.URL("http://x").copy_with(raw_path=path.encode()))
    assert answer.status_code == 404
    assert answer.json()["code"] == "not_found"


async def test_files_cannot_be_written(client: httpx.AsyncClient) -> None:
    assert (await client.post("/")).status_code == 405


async def test_without_a_console_there_is_a_page_that_says_so(tmp_path: Path) -> None:
    transport = httpx.ASGITransport(Console(tmp_path / "none"))
    async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
        assert "no console" in (await client.get("/")).text


async def test_every_file_that_the_page_names_is_there() -> None:
    transport = httpx.ASGITransport(Console(ROOT))
    async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
        page = (await client.get("/")).text
        named = [part.partition('"')[0] for part in page.split('"/assets/')[1:]]
        assert named
        for name in named:
            assert (await client.get(f"/assets/{name}")).status_code == 200, name


async def test_the_bundle_is_served_until_its_sources_change(client: httpx.AsyncClient, folder: Path) -> None:
    sources = Console(folder).sources
    (folder / BUNDLE).mkdir()
    (folder / BUNDLE / "app.js").write_text("bundled")
    (folder / BUNDLE / SOURCES).write_text(sources)
    assert Console(folder).sources == sources
    path = await versioned(client)
    assert (await client.get(path)).text == "bundled"
    (folder / "views" / "a.js").write_text("changed")
    changed = await versioned(client)
    assert changed != path
    assert (await client.get(changed)).text.startswith("import")


def test_the_page_draws_the_logo_that_others_load() -> None:
    drawn = "".join(line.strip() for line in (ROOT / "logo.svg").read_text("utf-8").splitlines()[1:-1])
    assert drawn in (ROOT / "index.html").read_text("utf-8")
