"""The language server: what `editor` finds, over LSP, with the modules that the service has at the moment."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from importlib.metadata import version
from typing import Any

from lsprotocol import types as lsp
from pygls.lsp.server import LanguageServer
from pygls.workspace import TextDocument

from constellation_mcp.configuration import Configuration
from constellation_mcp.editor import Completion, Kind, Known, Severity, completions, explained, problems
from constellation_mcp.service import Service, ServiceError, connect
from constellation_mcp.tools import Json, listed, modules_of
from pallas_cst.functions import Function, Functions
from pallas_cst.signatures import BadSignature, function_from
from pallas_cst.stdlib import STANDARD_FUNCTIONS

log = logging.getLogger(__name__)

_SEVERITIES = {
    Severity.ERROR: lsp.DiagnosticSeverity.Error,
    Severity.WARNING: lsp.DiagnosticSeverity.Warning,
    Severity.UNSURE: lsp.DiagnosticSeverity.Information,
}
_KINDS = {
    Kind.FUNCTION: lsp.CompletionItemKind.Function,
    Kind.VARIABLE: lsp.CompletionItemKind.Variable,
    Kind.TYPE: lsp.CompletionItemKind.Class,
    Kind.KEYWORD: lsp.CompletionItemKind.Keyword,
    Kind.OPTION: lsp.CompletionItemKind.Property,
    Kind.NAMESPACE: lsp.CompletionItemKind.Module,
}
_LEAST_PAUSE = 1.0
_MOST_DIAGNOSTICS = 200


class PipelineLanguageServer:
    """Serves one editor. Functions are read anew every `moduleTtlSeconds`; those that were read last are used."""

    def __init__(self, configuration: Configuration) -> None:
        self.server = LanguageServer("constellation-mcp", version("constellation-mcp"))
        self._configuration = configuration
        self._known = Known()
        self._client: str | None = None
        self._refreshing: asyncio.Task[None] | None = None
        self._on(lsp.INITIALIZE, self._initialize)
        self._on(lsp.INITIALIZED, self._initialized)
        self._on(lsp.TEXT_DOCUMENT_DID_OPEN, self._opened)
        self._on(lsp.TEXT_DOCUMENT_DID_CHANGE, self._changed)
        self._on(lsp.TEXT_DOCUMENT_DID_CLOSE, self._closed)
        self._on(lsp.TEXT_DOCUMENT_COMPLETION, self._complete, lsp.CompletionOptions(trigger_characters=["."]))
        self._on(lsp.TEXT_DOCUMENT_HOVER, self._hover)

    def _on(self, feature: str, handle: Callable[[Any], object], options: object = None) -> None:
        """Register a method. pygls can register functions only."""

        def handler(params: Any) -> object:
            return handle(params)

        self.server.feature(feature, options)(handler)

    # The modules of the service

    def _initialize(self, params: lsp.InitializeParams) -> None:
        self._client = params.client_info.name if params.client_info else None

    def _initialized(self, _params: lsp.InitializedParams) -> None:
        self._refreshing = asyncio.create_task(self._refresh())

    async def _refresh(self) -> None:
        caller = self._configuration.label(self._client)
        async with connect(self._configuration) as service:
            while True:
                try:
                    known = await _read(service, caller)
                except ServiceError as error:
                    log.info("the modules are not read: %s", error)
                else:
                    self._know(known)
                await asyncio.sleep(max(self._configuration.cache.module_ttl_seconds, _LEAST_PAUSE))

    def _know(self, known: Known) -> None:
        changed = known.functions.by_qualified != self._known.functions.by_qualified or not self._known.live
        self._known = known
        for uri in self.server.workspace.text_documents if changed else ():
            self._publish(uri)

    # What the editor asks

    def _opened(self, params: lsp.DidOpenTextDocumentParams) -> None:
        self._publish(params.text_document.uri)

    def _changed(self, params: lsp.DidChangeTextDocumentParams) -> None:
        self._publish(params.text_document.uri)

    def _closed(self, params: lsp.DidCloseTextDocumentParams) -> None:
        nothing = lsp.PublishDiagnosticsParams(uri=params.text_document.uri, diagnostics=[])
        self.server.text_document_publish_diagnostics(nothing)

    def _publish(self, uri: str) -> None:
        document = self.server.workspace.get_text_document(uri)
        diagnostics = [
            lsp.Diagnostic(
                range=_range(document, each.span.start, each.span.end),
                message=each.message,
                severity=_SEVERITIES[each.severity],
                code=each.code,
                source="constellation",
            )
            for each in problems(document.source, self._known)[:_MOST_DIAGNOSTICS]
        ]
        self.server.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, diagnostics, document.version))

    def _complete(self, params: lsp.CompletionParams) -> lsp.CompletionList:
        document = self.server.workspace.get_text_document(params.text_document.uri)
        at = document.offset_at_position(params.position)
        found = completions(document.source, at, self._known)
        items = [_item(each, order, _range(document, each.start, at)) for order, each in enumerate(found)]
        return lsp.CompletionList(is_incomplete=True, items=items)

    def _hover(self, params: lsp.HoverParams) -> lsp.Hover | None:
        document = self.server.workspace.get_text_document(params.text_document.uri)
        found = explained(document.source, document.offset_at_position(params.position), self._known)
        if found is None:
            return None
        text, span = found
        return lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.Markdown, text), _range(document, span.start, span.end))


def _range(document: TextDocument, start: int, end: int) -> lsp.Range:
    return lsp.Range(_position(document, start), _position(document, end))


def _position(document: TextDocument, offset: int) -> lsp.Position:
    """A place as the editor counts it; pygls itself is wrong at the end of a document."""
    before = document.source[:offset]
    line = before[before.rfind("\n") + 1 :]
    return lsp.Position(before.count("\n"), document.position_codec.client_num_units(line))


def _item(completion: Completion, order: int, replaced: lsp.Range) -> lsp.CompletionItem:
    return lsp.CompletionItem(
        label=completion.text,
        kind=_KINDS[completion.kind],
        detail=completion.detail or None,
        documentation=completion.about or None,
        filter_text=completion.text,
        sort_text=f"{order:04}",
        text_edit=lsp.TextEdit(replaced, completion.text),
    )


async def _read(service: Service, caller: str) -> Known:
    """All functions there are now.

    Raises:
        ServiceError: the service does not say.
    """
    functions = list(_functions(listed(await service.get(caller, "/signatures", keep=False), "functions")))
    modules = await modules_of(service, caller)
    about = {str(each.get("name")): str(each.get("description") or "") for each in modules}
    every = {each.qualified: each for each in (*functions, *STANDARD_FUNCTIONS)}  # the service lists standard ones, too
    return Known(Functions(every.values()), about, live=True)


def _functions(given: list[Json]) -> Iterator[Function]:
    for each in given:
        try:
            yield function_from(each)
        except BadSignature as error:
            log.warning("a function is left out: %s", error)
