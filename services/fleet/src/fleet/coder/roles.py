"""The roles of a template: its presets, else the options of a parameter that is for roles, else one."""

from pydantic import AliasChoices, BaseModel, Field, TypeAdapter

from fleet.coder.model import Listed, Role, Template, Text, unique_roles
from fleet.coder.rest import Rest, segment
from fleet.names import slug

PARAMETERS = "role", "agent_role", "system_prompt"
DEFAULT = Role("coder", "Coder")


class _Preset(BaseModel):
    """A preset. Coder writes its fields with capital letters in some versions."""

    id: str = Field(validation_alias=AliasChoices("id", "ID"))
    name: str = Field(validation_alias=AliasChoices("name", "Name"))
    description: Text = Field("", validation_alias=AliasChoices("description", "Description"))


class _Option(BaseModel):
    name: Text = ""
    description: Text = ""
    value: str


class Parameter(BaseModel):
    """A parameter of a template."""

    name: str
    options: Listed[_Option] = ()


PRESETS: TypeAdapter[tuple[_Preset, ...]] = TypeAdapter(Listed[_Preset])
RICH: TypeAdapter[tuple[Parameter, ...]] = TypeAdapter(Listed[Parameter])


async def parameters_of(rest: Rest, template: Template) -> dict[str, Parameter]:
    """The parameters of a template's active version by name. Coder drops others without a word.

    Raises:
        Unavailable: Coder does not answer.
    """
    path = f"api/v2/templateversions/{segment(template.active_version_id)}/rich-parameters"
    return {one.name: one for one in await rest.get(path, RICH) or ()}


async def roles_of(rest: Rest, template: Template) -> tuple[Role, ...]:
    """The roles of a template's active version.

    Raises:
        Unavailable: Coder does not answer.
    """
    version = f"api/v2/templateversions/{segment(template.active_version_id)}"
    presets = await rest.get(f"{version}/presets", PRESETS) or ()
    if presets:
        return unique_roles(
            Role(slug(preset.name) or preset.name, preset.name, preset.description, preset_id=preset.id)
            for preset in presets
        )
    parameters = await parameters_of(rest, template)
    for name in PARAMETERS:
        if name in parameters and (options := parameters[name].options):
            return unique_roles(
                Role(slug(shown) or shown, shown, one.description, None, (name, one.value))
                for one in options
                if (shown := one.name or one.value)
            )
    return (DEFAULT,)
