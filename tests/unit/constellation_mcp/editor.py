"""An editor that has started the language server, with pygls' own client.

A test imports this when it runs: the types of the protocol take almost half a second of a processor, which each process
that collects tests would spend.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from operator import methodcaller
from pathlib import Path

from lsprotocol import types as lsp
from pygls.lsp.client import LanguageClient
from tests.unit.constellation_mcp.test_transports import PROGRAM, environment
from tests.waiting import Collected, soon

URI = "file:///program.cst"


@dataclass
class Editor:
    """A client with one document."""

    client: LanguageClient
    published: Collected[lsp.PublishDiagnosticsParams] = field(default_factory=Collected[lsp.PublishDiagnosticsParams])
    version: int = 0

    async def write(self, text: str) -> None:
        """Open the document, or change all of it."""
        self.version += 1
        if self.version == 1:
            item = lsp.TextDocumentItem(URI, "cst", self.version, text)
            self.client.text_document_did_open(lsp.DidOpenTextDocumentParams(item))
            return
        document = lsp.VersionedTextDocumentIdentifier(self.version, URI)
        changes = [lsp.TextDocumentContentChangeWholeDocument(text)]
        self.client.text_document_did_change(lsp.DidChangeTextDocumentParams(document, changes))

    async def diagnosed(self, fits: Callable[[list[lsp.Diagnostic]], bool]) -> list[lsp.Diagnostic]:
        """The diagnostics of this version of the document, once they fit."""

        def found(each: lsp.PublishDiagnosticsParams) -> bool:
            return each.version == self.version and fits(list(each.diagnostics))

        published = await self.published.until(lambda items: any(map(found, items)))
        return next(list(each.diagnostics) for each in published if found(each))

    def at(self, line: int, character: int) -> tuple[lsp.TextDocumentIdentifier, lsp.Position]:
        return lsp.TextDocumentIdentifier(URI), lsp.Position(line, character)


@asynccontextmanager
async def editing(url: str, folder: Path) -> AsyncGenerator[Editor]:
    """An editor that has started the language server."""
    editor = Editor(LanguageClient("editor", "1"))

    def published(params: lsp.PublishDiagnosticsParams) -> None:
        editor.published.add(params)

    editor.client.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(published)
    await methodcaller("start_io", PROGRAM, "lsp", env=environment(url, folder), cwd=folder)(editor.client)
    client_info = lsp.ClientInfo("zed")
    await soon(
        editor.client.initialize_async(
            lsp.InitializeParams(capabilities=lsp.ClientCapabilities(), client_info=client_info)
        )
    )
    editor.client.initialized(lsp.InitializedParams())
    yield editor
    await soon(editor.client.shutdown_async(None))
    editor.client.exit(None)
    await soon(editor.client.stop())
