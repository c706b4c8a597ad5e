"""Serves the console: the files of `console`, and its `index.html` at every path that is not a file.

`index.html` names its files below `/assets/{version}/`, so browsers keep them until one of them changes. Files of
`bundle` are served in place of those of the same name, as long as they were made of the sources that are there.
"""

import gzip
import hashlib
import mimetypes
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pallas_runtime.http.problems import problem

ROOT = Path(str(files("workspaces") / "console"))
ASSETS = "/assets/"
READ_SECONDS = 1.0
"""How often it is looked whether files have changed, while there are requests."""
INDEX = "index.html"
BUNDLE, SOURCES = "bundle", "sources"
"""The folder of the bundle, and its file with the checksum of what it was made of."""
CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
API_POLICY = "default-src 'none'; frame-ancestors 'none'; sandbox"
SECURITY: Mapping[str, str] = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
_NO_CONSOLE = b"<!doctype html><title>Pallas</title><p>This installation has no console."
mimetypes.add_type("text/javascript", ".js")
mimetypes.add_type("font/woff2", ".woff2")


@dataclass(frozen=True, slots=True)
class _File:
    """A file as it is sent. `stamp` is its time and size."""

    stamp: tuple[int, int]
    content: bytes
    packed: bytes
    kind: str
    etag: str


class Console:
    """The ASGI application. Files are read when they have changed."""

    def __init__(self, root: Path = ROOT) -> None:
        self._root = root
        self._files = dict[str, _File]()
        self._read_changed()
        self._choose()

    @property
    def sources(self) -> str:
        """The checksum of all files that are not of the bundle."""
        return _checksum({name: file for name, file in self._files.items() if not name.startswith(f"{BUNDLE}/")})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        await self._answer(scope)(scope, receive, send)

    def _answer(self, scope: Scope) -> Response:
        path = scope["path"]
        if scope["method"] not in ("GET", "HEAD"):
            return problem(405, "method not allowed", "method")
        if time.monotonic() - self._read_at >= READ_SECONDS and self._read_changed():
            self._choose()
        if not path.startswith(ASSETS):
            return self._sent(self._index, scope, "no-cache")
        given, _, name = path.removeprefix(ASSETS).partition("/")
        if given == self._version and (found := self._served.get(name)):
            return self._sent(found, scope, "public, max-age=31536000, immutable")
        # A page of another version gets what there is now, and asks again.
        found = self._served.get(path.removeprefix(ASSETS)) or self._served.get(name)
        return self._sent(found, scope, "no-cache") if found else problem(404, "no such file", "not_found")

    def _read_changed(self) -> bool:
        """Read the files that have changed. Returns whether there were any."""
        self._read_at = time.monotonic()
        walked = [Path(folder) / name for folder, _, names in os.walk(self._root) for name in names]
        there = {str(path.relative_to(self._root)): path for path in walked}
        gone = self._files.keys() - there.keys()
        for name in gone:
            del self._files[name]
        changed = bool(gone)
        for name, path in there.items():
            known, status = self._files.get(name), path.stat()
            if known is None or known.stamp != (status.st_mtime_ns, status.st_size):
                self._files[name] = _made(name, path.read_bytes(), (status.st_mtime_ns, status.st_size))
                changed = True
        return changed

    def _choose(self) -> None:
        """Choose what is served, and make the page, with the version of the files in their addresses."""
        bundle = {Path(name).name: file for name, file in self._files.items() if name.startswith(f"{BUNDLE}/")}
        made_of = bundle.get(SOURCES)
        current = made_of is not None and made_of.content.decode() == self.sources
        self._served = self._files | bundle if current else self._files
        self._version = _checksum(self._served)[:12]
        index = self._served.get(INDEX)
        text = index.content if index else _NO_CONSOLE
        self._index = _made(INDEX, text.replace(ASSETS.encode(), f"{ASSETS}{self._version}/".encode()), (0, 0))

    def _sent(self, file: _File, scope: Scope, caching: str) -> Response:
        asked = Headers(scope=scope)
        headers = {"etag": file.etag, "cache-control": caching, "vary": "accept-encoding"}
        if file.etag in asked.get("if-none-match", ""):
            return Response(None, 304, headers)
        packed = "gzip" in asked.get("accept-encoding", "") and len(file.packed) < len(file.content)
        content = file.packed if packed else file.content
        headers |= {"content-encoding": "gzip"} if packed else {}
        return Response(content, 200, headers, media_type=file.kind)


def _checksum(files: Mapping[str, _File]) -> str:
    tags = "".join(f"{name}{file.etag}" for name, file in sorted(files.items()))
    return hashlib.sha256(tags.encode()).hexdigest()


def _made(name: str, content: bytes, stamp: tuple[int, int]) -> _File:
    kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
    packed = gzip.compress(content, 9, mtime=0)
    return _File(stamp, content, packed, kind, f'W/"{hashlib.sha256(content).hexdigest()[:20]}"')


def with_security_headers(inner: ASGIApp) -> ASGIApp:
    """Tell browsers to load nothing from elsewhere, and to show nothing of this elsewhere."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await inner(scope, receive, send)
            return
        policy = API_POLICY if scope["path"].startswith("/api/") else CONTENT_POLICY

        async def send_safe(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in (*SECURITY.items(), ("content-security-policy", policy)):
                    headers.setdefault(name, value)
            await send(message)

        await inner(scope, receive, send_safe)

    return app
