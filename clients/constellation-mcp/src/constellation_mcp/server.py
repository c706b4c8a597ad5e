"""The MCP server: tools, resources, prompts and completions, for all revisions of the protocol."""

import json
import logging
from importlib.metadata import version
from typing import Any

import mcp_types as types
from mcp.server.caching import CacheableMethod, CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from constellation_mcp import resources
from constellation_mcp.service import Service, ServiceError
from constellation_mcp.tools import Json, Refused, modules_of, offered, pipelines_of
from pallas_cst import documents, prompts
from pallas_cst.resources import JSON, LISTED, MARKDOWN, SCHEME, TEMPLATES, completions

log = logging.getLogger(__name__)

type Context = ServerRequestContext[Any, Any]

_MOST_COMPLETIONS = 100
_INSTRUCTIONS = (
    "Tools for pipelines of a Constellation service. Read constellation://docs/language-reference before you write a "
    "pipeline, list the modules there are, and validate a pipeline before you show it."
)
_PROMPTS = [
    types.Prompt(
        name=name,
        description=description,
        arguments=[
            types.PromptArgument(name=each.name, description=each.description, required=each.required)
            for each in arguments
        ],
    )
    for name, (description, arguments) in prompts.PROMPTS.items()
]


class ConstellationServer:
    """Serves what RFC-018 has, in front of a service."""

    def __init__(self, service: Service) -> None:
        self._service = service
        features, cache = service.configuration.features, service.configuration.cache
        self._longest = features.max_source_length
        self._documents_ttl = cache.documentation_ttl_seconds * 1000
        self._tools = {tool.name: tool for tool in offered(features)}
        bundled = CacheHint(self._documents_ttl, "public")
        hints: dict[CacheableMethod, CacheHint] = {
            "server/discover": bundled,
            "tools/list": bundled,
            "prompts/list": bundled,
            "resources/list": bundled,
            "resources/templates/list": bundled,
            "resources/read": CacheHint(cache.module_ttl_seconds * 1000, "private"),
        }
        self.server = Server[Any](
            "constellation-mcp",
            version=version("constellation-mcp"),
            title="Constellation",
            instructions=_INSTRUCTIONS,
            cache_hints=hints,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._get_prompt,
            on_completion=self._complete,
        )

    def _caller(self, context: Context) -> str:
        client = context.session.client_params
        return self._service.configuration.label(client.client_info.name if client else None)

    # Tools

    async def _list_tools(self, _context: Context, _params: object) -> types.ListToolsResult:
        return types.ListToolsResult(
            tools=[
                types.Tool(
                    name=tool.name,
                    description=tool.description,
                    input_schema=tool.schema,
                    annotations=types.ToolAnnotations(read_only_hint=tool.reads, destructive_hint=not tool.reads),
                )
                for tool in self._tools.values()
            ]
        )

    async def _call_tool(self, context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        tool, arguments = self._tools.get(params.name), params.arguments or {}
        if tool is None:
            raise MCPError(code=types.INVALID_PARAMS, message=f"Unknown tool: {params.name[:100]}")
        try:
            tool.check(arguments, self._longest)
            return _answered(await tool.run(self._service, self._caller(context), arguments))
        except (Refused, ServiceError) as error:
            return types.CallToolResult(content=[types.TextContent(text=str(error))], is_error=True)

    # Resources

    async def _list_resources(self, _context: Context, _params: object) -> types.ListResourcesResult:
        bundled = [_described(f"docs/{name}", documents.title(name), None, MARKDOWN) for name in documents.names()]
        live = [_described(name, *said, JSON) for name, said in LISTED.items()]
        return types.ListResourcesResult(resources=[*bundled, *live])

    async def _list_templates(self, _context: Context, _params: object) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(
            resource_templates=[
                types.ResourceTemplate(
                    uri_template=SCHEME + template, name=name, description=about, mime_type=mime_type
                )
                for template, (name, about, mime_type) in TEMPLATES.items()
            ]
        )

    async def _read_resource(
        self, context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        uri = str(params.uri)
        try:
            found = await resources.read(self._service, self._caller(context), uri)
        except resources.NotFound:
            raise MCPError(code=types.INVALID_PARAMS, message=f"Unknown resource: {uri[:300]}") from None
        except ServiceError as error:
            raise MCPError(code=types.INTERNAL_ERROR, message=str(error)) from None
        content = types.TextResourceContents(uri=uri, mime_type=found.mime_type, text=found.text)
        if found.bundled:
            return types.ReadResourceResult(contents=[content], ttl_ms=self._documents_ttl, cache_scope="public")
        return types.ReadResourceResult(contents=[content])

    # Prompts

    async def _list_prompts(self, _context: Context, _params: object) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=_PROMPTS)

    async def _get_prompt(self, context: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        prompt = next((each for each in _PROMPTS if each.name == params.name), None)
        if prompt is None:
            raise MCPError(code=types.INVALID_PARAMS, message=f"Unknown prompt: {params.name[:100]}")
        given = params.arguments or {}
        for argument in prompt.arguments or ():
            if argument.required and not given.get(argument.name):
                raise MCPError(code=types.INVALID_PARAMS, message=f"{prompt.name} needs {argument.name}")
        if any(len(value) > self._longest for value in given.values()):
            raise MCPError(code=types.INVALID_PARAMS, message=f"an argument has more than {self._longest:,} characters")
        if prompt.name == prompts.DEBUG:
            text = prompts.debug_pipeline(given["source"], given["error"])
        else:
            modules = await self._modules_text(self._caller(context))
            text = prompts.write_pipeline(given["goal"], given.get("available_inputs"), modules)
        message = types.PromptMessage(role="user", content=types.TextContent(text=text))
        return types.GetPromptResult(description=prompt.description, messages=[message])

    async def _modules_text(self, caller: str) -> str:
        try:
            return prompts.modules_text(await modules_of(self._service, caller))
        except ServiceError as error:
            return f"The modules could not be listed: {error}. Use the standard library only, or ask again later."

    # Completions

    async def _complete(self, context: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
        ref = params.ref
        known = list[str]()
        if isinstance(ref, types.ResourceTemplateReference):
            try:
                known = await self._names(ref.uri.removeprefix(SCHEME), self._caller(context))
            except ServiceError as error:
                log.info("no completions: %s", error)
        found = completions(known, params.argument.value)
        completion = types.Completion(
            values=found[:_MOST_COMPLETIONS], total=len(found), has_more=len(found) > _MOST_COMPLETIONS
        )
        return types.CompleteResult(completion=completion)

    async def _names(self, template: str, caller: str) -> list[str]:
        match template.partition("/{")[0]:
            case "docs/examples":
                return documents.examples()
            case "docs/errors":
                return documents.errors()
            case "modules":
                return [str(each["name"]) for each in await modules_of(self._service, caller) if "name" in each]
            case "pipelines":
                return [str(each["name"]) for each in await pipelines_of(self._service, caller) if each.get("name")]
            case _:
                return []


def _answered(answer: Json) -> types.CallToolResult:
    """An answer. One without success is an error, so that the model mends it."""
    text = types.TextContent(text=json.dumps(answer, ensure_ascii=False))
    return types.CallToolResult(
        content=[text], structured_content=answer, is_error=answer.get("success", True) is False
    )


def _described(path: str, name: str, description: str | None, mime_type: str) -> types.Resource:
    return types.Resource(uri=SCHEME + path, name=name, description=description, mime_type=mime_type)
