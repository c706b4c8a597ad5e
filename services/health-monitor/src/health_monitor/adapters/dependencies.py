"""Probes a dependency of either kind."""

from dataclasses import dataclass

from health_monitor.adapters.mcp_probe import McpProbe
from health_monitor.adapters.model_probe import ModelProbe
from health_monitor.ports import McpTarget, Target


@dataclass(frozen=True, slots=True)
class Dependencies:
    """The `Prober` of both kinds."""

    mcp: McpProbe
    model: ModelProbe

    async def probe(self, target: Target) -> str | None:
        """Return None when the dependency answers, else a short reason."""
        if isinstance(target, McpTarget):
            return await self.mcp.probe(target.server)
        return await self.model.probe(target.provider, target.model)
