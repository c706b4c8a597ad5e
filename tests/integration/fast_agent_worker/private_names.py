"""The names of fast-agent and other libraries that the worker uses although no documentation promises them."""

_AGGREGATOR = "see how an agent reaches its aggregator now, and give it the shared one there (turns/closure.py)"
_CHILDREN = "see where an agent has its sub-agents as tools now, and name them there (turns/closure.py, own_agents.py)"
_RUN = "follow `FastAgentRunLifecycle` and what a run does before its agents are made (project/load.py)"
_MAKE = "follow `FastAgent.run`: what it does to agents that were made (turns/closure.py)"
_PEOPLE = "see how the tool `__human_input` reads its arguments now, and read them alike (turns/people.py)"
_MODELS = "see which client a provider makes for a call now, and have it share a pool (project/models.py)"
_SHORTER = "leave this shorter way out of project/shorter.py, then measure with `make bench`"
_ONCE = "leave it out of project/once.py, then measure with `make bench`"
_HTTP = "see how a client of a server is made now, and let it have the bounded transport (project/transport.py)"
_SETTINGS = "see where fast-agent reads variables and makes its settings now (project/settings.py)"
_STDERR = "see how a server gets its standard error now (project/stderr.py)"
_ENDED = "see how a session says that its process has ended, and ask that in `has_lost` (project/aggregator.py)"

NAMES: dict[tuple[str, str], str] = {
    ("fast_agent.agents.mcp_agent", "_aggregator"): _AGGREGATOR,
    ("fast_agent.agents.llm_decorator", "_configure_cloned_instance"): _AGGREGATOR,
    ("fast_agent.agents.mcp_agent", "_codex_web_search"): _AGGREGATOR,
    ("fast_agent.mcp.mcp_aggregator", "_persistent_connection_manager"): _AGGREGATOR,
    ("fast_agent.mcp.mcp_aggregator", "_namespaced_tool_map"): _AGGREGATOR,
    ("fast_agent.mcp.mcp_aggregator", "_app_integration_configs"): _AGGREGATOR,
    ("fast_agent.agents.workflow.agents_as_tools_agent", "_child_agents"): _CHILDREN,
    ("fast_agent.agents.tool_agent", "_execution_tools"): "see where an agent has its functions now (turns/tools.py)",
    ("fast_agent.core.fastagent", "_registered_tools"): _MAKE,
    ("fast_agent.core.fastagent", "_apply_agent_card_histories"): _MAKE,
    ("fast_agent.core.managed_runtime", "_finalize_initial_agent_instance"): _MAKE,
    ("fast_agent.core.fastagent", "_validate_run_preconditions"): _RUN,
    ("fast_agent.core.fastagent", "_sync_agent_card_mcp_servers"): _RUN,
    ("fast_agent.core.fastagent", "_apply_environment_skills"): _RUN,
    ("fast_agent.core.fastagent", "_refresh_prompt_context_skills"): _RUN,
    ("fast_agent.tools.elicitation", "_coerce_elicitation_arguments"): _PEOPLE,
    ("fast_agent.tools.elicitation", "_resolve_elicitation_schema"): _PEOPLE,
    ("fast_agent.tools.elicitation", "_validate_elicitation_schema_field_limit"): _PEOPLE,
    (
        "fast_agent.llm.fastagent_llm",
        "_structured_from_multipart",
    ): "see how an answer becomes an object (turns/models.py)",
    ("fast_agent.llm.provider.openai.llm_openai", "DefaultAioHttpClient"): _MODELS,
    ("fast_agent.llm.provider.openai.llm_openai", "AsyncOpenAI"): _MODELS,
    ("fast_agent.llm.provider.openai.responses", "AsyncOpenAI"): _MODELS,
    ("fast_agent.llm.provider.anthropic.llm_anthropic", "AsyncAnthropic"): _MODELS,
    ("openai._vendor.httpx_aiohttp.client", "_init_transport"): _MODELS,
    ("openai._base_client", "_prepare_url"): _MODELS,
    ("openai._utils", "async_maybe_transform"): _SHORTER,
    ("openai.resources.chat.completions.completions", "async_maybe_transform"): _SHORTER,
    ("openai.resources.responses.responses", "async_maybe_transform"): _SHORTER,
    ("fast_agent.llm.fastagent_llm", "merge_request_params"): _SHORTER,
    ("fast_agent.llm.provider_key_manager", "_get_config_value"): _SHORTER,
    ("fast_agent.agents.llm_decorator", "_merge_trailing_tool_result_turn"): _SHORTER,
    ("fast_agent.ui.console_display", "_apply_console_theme"): _ONCE,
    ("fast_agent.mcp.client_callback_runtime", "version"): _ONCE,
    ("httpcore2", "default_ssl_context"): _ONCE,
    (
        "fast_agent.mcp.client_gateway",
        "get_stderr_handler",
    ): "see how a server gets its standard error now (project/stderr.py)",
    ("fast_agent.mcp.client_gateway", "_managed_http_transport_context"): _HTTP,
    ("openai._vendor.httpx_aiohttp.transport", "AiohttpTransport"): _HTTP,
    ("httpx2._client", "_transport"): _HTTP,
    ("httpx2._client", "_mounts"): _HTTP,
    ("fast_agent.mcp.client_gateway", "sse_client"): _HTTP,
    ("fast_agent.mcp.client_gateway", "tracking_stdio_client"): _HTTP,
    ("fast_agent.mcp.client_gateway", "StdioServerParameters"): _HTTP,
    ("mcp.shared._httpx_utils", "create_mcp_http_client"): _HTTP,
    ("fast_agent.mcp.mcp_aggregator", "_fetch_server_tools"): _AGGREGATOR,
    ("mcp.client.session", "validate_tool_result"): "see what checks results now (project/transport.py)",
    ("fast_agent.config", "_settings_from_sources"): _SETTINGS,
    ("fast_agent.config", "resolve_env_vars"): _SETTINGS,
    ("mcp.client.session", "_dispatcher"): _ENDED,
    ("mcp.shared.jsonrpc_dispatcher", "_closed"): _ENDED,
}
"""What to do when a name is gone, by its module and the name."""
