"""Where the apps of workspaces are: below Coder's own address, or at hosts of their own."""

import re
from collections.abc import Sequence

import httpx2

from fleet.coder.model import App, Workspace, WorkspaceAgent
from fleet.coder.rest import segment

_PORT = re.compile(r"http://(localhost|127\.0\.0\.1):3284(/|$)")


def find_app(workspace: Workspace, slugs: Sequence[str]) -> tuple[WorkspaceAgent, App] | None:
    """The app that is AgentAPI: the first of these slugs, else the one that Coder itself uses for tasks.

    Coder does not say that of new builds any more (since 2.30). Its modules name the app after the agent, and let
    AgentAPI have its usual port.
    """
    apps = [(agent, app) for agent in workspace.agents for app in agent.apps]
    for slug in slugs:
        if (found := next((pair for pair in apps if pair[1].slug == slug), None)) is not None:
            return found
    task_app = (pair for pair in apps if workspace.task_app_id and pair[1].id == workspace.task_app_id)
    return next(task_app, None) or next((pair for pair in apps if _PORT.match(pair[1].url)), None)


def app_url(base: httpx2.URL, wildcard: str, workspace: Workspace, agent: WorkspaceAgent, app: App) -> httpx2.URL:
    """The address of an app, with a slash at its end. `wildcard` is the form of the hosts of apps, or empty."""
    if app.subdomain and wildcard:
        name = app.subdomain_name or f"{app.slug}--{agent.name}--{workspace.name}--{workspace.owner}"
        return httpx2.URL(f"{base.scheme}://{wildcard.replace('*', name, 1)}/")
    place = f"{segment(workspace.name)}.{segment(agent.name)}" if agent.name else segment(workspace.name)
    return httpx2.URL(f"{base}@{segment(workspace.owner)}/{place}/apps/{segment(app.slug)}/")
