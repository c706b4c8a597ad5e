"""Makes the application from its parts."""

from prometheus_client import Counter

from pallas_runtime.http.bearers import Bearers
from pallas_runtime.http.hosts import accepted_hosts
from pallas_runtime.probes import Probes
from pipelines.agent.tools import Handlers
from pipelines.http.executions import ExecutionRoutes
from pipelines.http.identity import Identities
from pipelines.http.modules import ModuleRoutes
from pipelines.http.pipelines import PipelineRoutes
from pipelines.http.programs import ProgramRoutes
from pipelines.http.rates import Rates
from pipelines.http.routing import PipelinesHttp
from pipelines.http.runs import RunRoutes
from pipelines.http.turns import Turns
from pipelines.metrics import RequestMetrics
from pipelines.running.suspending import Suspensions
from pipelines.settings import PipelinesSettings
from pipelines.storing.scopes import Scopes


def make_http(
    settings: PipelinesSettings,
    probes: Probes,
    requests: Counter,
    scopes: Scopes,
    bearers: Bearers,
    handlers: Handlers,
    suspensions: Suspensions,
    turns: Turns,
) -> PipelinesHttp:
    """The application with all routes."""
    probes.json_metrics = True
    pipelines, views = handlers.pipelines, handlers.views
    executions = ExecutionRoutes(turns, suspensions, handlers.executions)
    return PipelinesHttp(
        [
            *ProgramRoutes(handlers.compiler, pipelines, views).routes(),
            *RunRoutes(handlers.compiler, pipelines.store, turns).routes(),
            *ModuleRoutes(handlers.modules).routes(),
            *PipelineRoutes(handlers.modules, pipelines, views).routes(),
            *executions.routes(),
        ],
        Identities(scopes, bearers),
        Rates(settings.pipeline_rate, settings.pipeline_burst),
        accepted_hosts(settings.public_url, settings.allowed_hosts, settings.allowed_origins),
        probes,
        RequestMetrics(requests, turns.key.conversation),
        executions.streams,
    )
