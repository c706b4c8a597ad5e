"""`show_agent_task_history`: the tasks of an agent, the latest first, in pages."""

from dataclasses import dataclass

from fleet.seeing.fleet import Fleet
from fleet.storing.tasks import Page, Tasks
from fleet.times import task_view
from pallas_contracts.agents import JsonObject
from pallas_contracts.errors import Rejected
from pallas_contracts.turns import Principal

DEFAULT_SIZE = 20
LARGEST_SIZE = 100


@dataclass(frozen=True)
class ShowHistory:
    """Shows histories."""

    fleet: Fleet
    tasks: Tasks

    async def show(self, name: str, caller: Principal, page: int = 1, size: int = DEFAULT_SIZE) -> JsonObject:
        """A page of an agent's history; `size` is clamped. A page behind the last one is empty.

        Raises:
            Rejected: pages are counted from 1.
            NotFound: there is no such agent.
            Unavailable: Coder or the broker does not answer.
        """
        if page < 1:
            raise Rejected("page must be at least 1.", field="page")
        size = min(max(size, 1), LARGEST_SIZE)
        entry = (await self.fleet.find(name, caller)).entry
        found = await self.tasks.page(entry, page, size) if entry is not None else Page((), 0, page, size)
        return {
            "tasks": [task_view(task) for task in found.tasks],
            "total_count": found.total,
            "page": page,
            "page_size": size,
            "total_pages": found.pages,
        }
