"""Reads the tasks of a coding agent, which the fleet answers in pages."""

from pallas_cli.fleet.calls import Document, FleetCalls

_TOOL = "show_agent_task_history"
_SIZE = 100
"""Tasks on a page; the fleet allows no more."""


async def read_history(fleet: FleetCalls, agent: str, limit: int, after: str | None) -> Document:
    """The latest tasks, `limit` and one behind the task `after`, or fewer if there are no more; and `total_count`.

    A task that begins meanwhile moves the others to later pages, so one may be read twice. It is kept once.

    Raises:
        FleetRefused: the fleet refuses the call, or there is no answer.
    """
    tasks: dict[str, Document] = {}
    page, pages, count = 0, 1, 0
    while page < pages and not _enough(list(tasks), limit, after):
        page += 1
        answer = await fleet.ask(_TOOL, agent_name=agent, page=page, page_size=_SIZE)
        tasks |= {task["id"]: task for task in answer["tasks"]}
        pages, count = answer["total_pages"], answer["total_count"]
    return {"tasks": list(tasks.values()), "total_count": count}


def _enough(ids: list[str], limit: int, after: str | None) -> bool:
    begin = 0 if after is None else ids.index(after) + 1 if after in ids else len(ids)
    return len(ids) > begin + limit
