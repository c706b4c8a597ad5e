"""The roles of a template: its presets, else the options of a parameter that is for roles, else one."""

from typing import Annotated

from pydantic import AliasChoices, BaseModel, BeforeValidator, Field, TypeAdapter

from fleet.coder.model import Role, Template, Text, role_name, unique_roles
from fleet.coder.rest import Rest, segment

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


type _Maybe[T] = Annotated[tuple[T, ...], BeforeValidator(lambda given: given or ())]


class _Parameter(BaseModel):
    name: str
    options: _Maybe[_Option] = ()


PRESETS: TypeAdapter[tuple[_Preset, ...]] = TypeAdapter(_Maybe[_Preset])
RICH: TypeAdapter[tuple[_Parameter, ...]] = TypeAdapter(_Maybe[_Parameter])


async def roles_of(rest: Rest, template: Template) -> tuple[Role, ...]:
    """The roles of a template's active version.

    Raises:
        Unavailable: Coder does not answer.
    """
    version = f"api/v2/templateversions/{segment(template.active_version_id)}"
    presets = await rest.get(f"{version}/presets", PRESETS) or ()
    if presets:
        return unique_roles(
            Role(role_name(preset.name), preset.name, preset.description, preset_id=preset.id) for preset in presets
        )
    parameters = {one.name: one for one in await rest.get(f"{version}/rich-parameters", RICH) or ()}
    for name in PARAMETERS:
        if name in parameters and (options := parameters[name].options):
            return unique_roles(
                Role(role_name(one.name or one.value), one.name or one.value, one.description, None, (name, one.value))
                for one in options
            )
    return (DEFAULT,)
