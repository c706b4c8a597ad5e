"""`list_agent_projects` and `list_agent_roles`: what an agent can be made for."""

from fleet.coder.client import Coder
from fleet.seeing.projects import find_project, project_view, role_view, usable
from pallas_contracts.agents import JsonObject


async def list_projects(coder: Coder) -> JsonObject:
    """All projects by name.

    Raises:
        Unavailable: Coder does not answer.
    """
    return {"projects": [project_view(template) for template in usable(await coder.templates())]}


async def list_roles(coder: Coder, project: str) -> JsonObject:
    """The roles that agents of a project can have.

    Raises:
        NotFound: there is no such project.
        Rejected: several projects may be meant.
        Unavailable: Coder does not answer.
    """
    template = find_project(await coder.templates(), project)
    return {"roles": [role_view(role) for role in await coder.roles(template)]}
