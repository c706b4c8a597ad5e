"""The public key to which requests of failed turns are sealed, as a setting of a worker."""

from typing import Annotated

from pydantic import AfterValidator

from pallas_bus.turnlog.content.sealed import seal_key
from pallas_contracts.errors import Rejected


def _check_key(text: str) -> str:
    try:
        seal_key(text)
    except Rejected as error:
        raise ValueError(error.message) from error
    return text


type SealKeyText = Annotated[str, AfterValidator(_check_key)]
