"""Projects and roles as callers name them, and the templates and presets that they mean. Pure."""

from collections.abc import Callable, Sequence

from fleet.coder.model import Role, Template
from fleet.names import cut, slug
from pallas_contracts.agents import JsonObject
from pallas_contracts.errors import NotFound, Rejected

DEFAULT_ROLE = "coder"


def usable(templates: Sequence[Template]) -> list[Template]:
    """The templates that are projects, by name."""
    kept = [template for template in templates if not template.deprecated]
    return sorted(kept, key=lambda template: project_name(template).lower())


def project_name(template: Template) -> str:
    """The name of a project."""
    return template.display_name or template.name


def project_view(template: Template) -> JsonObject:
    """A project as callers see it."""
    name = project_name(template)
    return {
        "name": name,
        "display_name": name,
        "description": template.description,
        "template_id": template.id,
        "template_name": template.name,
    }


def find_project(templates: Sequence[Template], wanted: str) -> Template:
    """The project of this name: its own name, that of its template, either as a slug, or the beginning of one.

    Raises:
        NotFound: there is none.
        Rejected: several have it.
    """
    known, given = usable(templates), wanted.strip().lower()
    levels: list[Callable[[Template], bool]] = [
        lambda it: project_name(it).lower() == given,
        lambda it: it.name.lower() == given,
        lambda it: slug(wanted) in (slug(project_name(it)), slug(it.name)),
        lambda it: any(name.lower().startswith(given) for name in (project_name(it), it.name)),
    ]
    for fits in levels if slug(given) else ():
        match [template for template in known if fits(template)]:
            case []:
                continue
            case [template]:
                return template
            case several:
                names = ", ".join(template.name for template in several)
                raise Rejected(f"project '{cut(wanted)}' is ambiguous; it may be one of: {names}.", field="project")
    names = ", ".join(map(project_name, known)) or "none"
    raise NotFound(f"Project '{cut(wanted)}' does not exist; projects are: {names}.", field="project")


def role_view(role: Role) -> JsonObject:
    """A role as callers see it."""
    return {"name": role.name, "display_name": role.display_name, "description": role.description}


def find_role(roles: Sequence[Role], wanted: str, project: str) -> Role:
    """The role of this name.

    Raises:
        Rejected: there is none.
    """
    for role in roles:
        if slug(wanted) and slug(wanted) in (slug(role.name), slug(role.display_name)):
            return role
    names = ", ".join(role.name for role in roles)
    raise Rejected(f"role '{cut(wanted)}' does not exist in project '{project}'; roles are: {names}.", field="role")
