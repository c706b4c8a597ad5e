"""The spans of one run of an agent and of its tool calls, by the semantic conventions for generative AI.

pydantic-ai makes those of model calls, and finds the run in the baggage. Without an exporter, nothing is recorded.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from uuid import uuid4

from opentelemetry import baggage, context
from opentelemetry.trace import Span, StatusCode
from pydantic_ai.messages import ToolCallPart, ToolReturnPart
from pydantic_ai.usage import RequestUsage, RunUsage

from agent_worker.llm.models import AgentModel
from pallas_runtime.telemetry import tracer


class RunSpans:
    """Makes the spans of one run. They have content only if the model's have (`AgentModel.trace_content`)."""

    def __init__(self, agent: str, model: AgentModel) -> None:
        self._agent = agent
        self._model = model.name
        self._content = model.trace_content
        self._usage = RunUsage()
        self._run: dict[str, str] = {}

    def add(self, usage: RequestUsage) -> None:
        """Count the tokens of a response."""
        self._usage.incr(usage)

    @contextmanager
    def run(self) -> Generator[Callable[[str], None]]:
        """The span of the run. Its result is passed to what this yields."""
        names = {"agent_name": self._agent, "model_name": self._model}
        with self._span("invoke_agent", self._agent, names) as span:
            if not span.is_recording():
                yield lambda _answer: None
                return
            self._run = {"gen_ai.agent.name": self._agent, "gen_ai.agent.call.id": str(uuid4())}
            span.set_attributes(self._run)
            within = context.get_current()
            for key, value in self._run.items():
                within = baggage.set_baggage(key, value, within)
            token = context.attach(within)
            try:
                yield lambda answer: self._set_content(span, "final_result", answer)
            finally:
                context.detach(token)
                for key, tokens in self._usage.opentelemetry_attributes().items():
                    span.set_attribute(key.replace("gen_ai.usage", "gen_ai.aggregated_usage"), tokens)

    @contextmanager
    def call(self, call: ToolCallPart) -> Generator[Callable[[ToolReturnPart], None]]:
        """The span of a tool call. Its result is passed to what this yields."""

        def ended(result: ToolReturnPart) -> None:
            if result.outcome != "success":
                span.set_status(StatusCode.ERROR)
            self._set_content(span, "gen_ai.tool.call.result", result.model_response_str(wrap_if_error=False))

        tool = {"gen_ai.tool.name": call.tool_name, "gen_ai.tool.call.id": call.tool_call_id}
        with self._span("execute_tool", call.tool_name, tool | self._run) as span:
            self._set_content(span, "gen_ai.tool.call.arguments", call.args_as_json_str())
            yield ended

    def _set_content(self, span: Span, key: str, text: str) -> None:
        if self._content:
            span.set_attribute(key, text)

    @contextmanager
    def _span(self, operation: str, name: str, attributes: dict[str, str]) -> Generator[Span]:
        about = {"gen_ai.operation.name": operation} | attributes
        with tracer.start_as_current_span(
            f"{operation} {name}",
            attributes=about,
            record_exception=self._content,
            set_status_on_exception=self._content,
        ) as span:
            try:
                yield span
            except Exception as error:
                if not self._content:
                    kind = type(error)
                    span.add_event("exception", {"exception.type": f"{kind.__module__}.{kind.__qualname__}"})
                    span.set_status(StatusCode.ERROR)
                raise
