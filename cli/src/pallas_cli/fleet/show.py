"""Prints what the fleet answers, as tables and lines."""

import json
from collections.abc import Sequence

from pallas_cli.fleet.calls import Document
from pallas_cli.paging import Page
from pallas_cli.plain_text import plain_line, print_plain, print_table


def show_agents(answer: Document, page: Page, *, as_json: bool) -> None:
    """A page of agents with their status."""
    agents = list(page.cut(answer["agents"], lambda agent: agent["name"]))
    if as_json:
        print(json.dumps({**answer, "agents": agents}, indent=2, ensure_ascii=False))
        return
    rows = [(it["name"], it["status"], it["current_task"] or "-") for it in agents]
    _table(("agent", "status", "task"), rows, "coding agents")


def show_agent(agent: Document) -> None:
    """One agent in full."""
    print_plain(f"{agent['name']}: {agent['status']}")
    lines = [("role", agent["role"]), ("project", agent["project"]), ("task", agent["current_task"] or "-")]
    lines += [("workspace", agent["workspace_id"]), ("created", agent["created_at"]), ("updated", agent["updated_at"])]
    lines += [
        (name.removeprefix("fleet_mcp_").replace("_", " "), text)
        for name, text in agent["metadata"].items()
        if name != "fleet_mcp_agent_spec"
    ]
    for name, text in lines:
        print_plain(f"  {name}: {plain_line(text)}")
    print_plain("  spec:")
    for line in agent["spec"].splitlines() or ["-"]:
        print_plain(f"    {line}")


def show_history(answer: Document, page: Page, *, as_json: bool) -> None:
    """A part of the tasks, the latest first."""
    tasks = list(page.cut(answer["tasks"], lambda task: task["id"]))
    if as_json:
        print(json.dumps({**answer, "tasks": tasks}, indent=2, ensure_ascii=False))
        return
    headers = ("created", "status", "source", "started", "ended", "id", "summary")
    keys = ("created_at", "status", "source", "started_at", "completed_at", "id", "summary")
    _table(headers, [tuple(task[key] or "-" for key in keys) for task in tasks], "tasks")


def show_projects(answer: Document) -> None:
    """Projects, which are templates of Coder."""
    rows = [(it["name"], it["template_name"], it["description"] or "-") for it in answer["projects"]]
    _table(("project", "template", "description"), rows, "projects")


def show_roles(answer: Document) -> None:
    """Roles of a project."""
    rows = [(it["name"], it["display_name"], it["description"] or "-") for it in answer["roles"]]
    _table(("role", "displayed as", "description"), rows, "roles")


def _table(headers: Sequence[str], rows: Sequence[Sequence[str]], what: str) -> None:
    if rows:
        print_table(headers, rows)
    else:
        print_plain(f"no {what}")
