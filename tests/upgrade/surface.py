"""What callers and operators ask of each service, at every process of it that runs: both releases answer alike."""

import asyncio
import uuid
from dataclasses import dataclass
from typing import Any

from tests.e2e import wire
from tests.integration.library_search.lab import DOCUMENTS
from tests.integration.real_parts import until
from tests.integration.team_lifecycle.lab import ADMIN
from tests.upgrade.load import Load
from tests.upgrade.world import DATA_AGENT, World

_PIPELINE = {"source": "in x: Int\ny = x + 1\nout y\n", "inputs": {"x": 41}}


@dataclass
class Surface:
    """Asks everything. `load` calls tools through any gateway."""

    world: World
    load: Load

    async def prepare(self) -> None:
        """Make the library that is searched."""
        admin = f"{self.world.bases('team-lifecycle')[0]}{ADMIN}"
        await self._send("POST", f"{admin}/users", json={"name": "ann"})
        library = {"uid": "manuals", "name": "Manuals", "workspace_id": "work", "owner": "ann"}
        await self._send("POST", f"{admin}/libraries", json=library)
        page = f"{self.world.bases('library-search')[0]}{DOCUMENTS}/manuals"
        await self._send("PUT", page, params={"path": "page.md"}, content=b"# Page\nA page of the manuals.\n")

    async def answers(self) -> None:
        """Ask all that run now."""
        await asyncio.gather(
            self._catalogue(), self._health(), self._pipelines(), self._searches(), self._console(), self._tools()
        )

    async def _catalogue(self) -> None:
        for base in self.world.bases("registry"):
            listed = await self._send("GET", f"{base}/teams/rolling/.well-known/mcp/server.json")
            assert [each["server"]["name"].rpartition("/")[2] for each in listed["servers"]] == ["pallas-ledger"]

    async def _health(self) -> None:
        for base in self.world.bases("health-monitor"):

            async def knows(base: str = base) -> bool:
                text = (await self.world.http.get(f"{base}/metrics")).text
                return 'pallas_agent_health{agent="ledger",team="rolling"} 1.0' in text

            await until(knows)

    async def _pipelines(self) -> None:
        for base in self.world.bases("pipelines"):
            answer = await self._send("POST", f"{base}/run", json=_PIPELINE)
            assert answer["outputs"] == {"y": 42}, answer

    async def _searches(self) -> None:
        """A token of each team-lifecycle, at each library-search. Any resolver resolves it."""
        for lifecycle in self.world.bases("team-lifecycle"):
            token = {"user": "ann", "name": uuid.uuid4().hex, "allowed_libraries": ["manuals"]}
            bearer = (await self._send("POST", f"{lifecycle}{ADMIN}/tokens", json=token))["token"]
            for search in self.world.bases("library-search"):
                body, headers = wire.modern("tools/call", {"name": "search", "arguments": {"query": "manuals"}})
                headers["authorization"] = f"Bearer {bearer}"
                answer = await self.world.http.post(f"{search}/mcp", json=body, headers=headers)
                assert "page.md" in answer.text, answer.text

    async def _console(self) -> None:
        for base in self.world.bases("workspaces"):
            assert await self._send("GET", f"{base}/api/v1/workspaces") is not None

    async def _tools(self) -> None:
        """A data agent and the fleet, through a gateway."""
        key = uuid.uuid4().hex
        measured = await self.load.tool("data", DATA_AGENT, "measure", {"key": key, "seconds": 0}, key=key)
        assert measured["structuredContent"] == {"text": f"{key} measured"}, measured
        await self.load.tool("fleet", "fleet", "list_agents", {}, key=f"{key}-fleet")

    async def _send(self, method: str, url: str, **content: Any) -> Any:
        answer = await self.world.http.request(method, url, auth=("admin", self.world.passwords["admin"]), **content)
        assert answer.is_success, (url, answer.text)
        return answer.json() if answer.content else None
