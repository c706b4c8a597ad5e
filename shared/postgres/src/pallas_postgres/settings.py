"""The address of a database, as a setting."""

from typing import Annotated

from pydantic import AfterValidator, SecretStr
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError


def _check_postgres(value: SecretStr) -> SecretStr:
    try:
        scheme = make_url(value.get_secret_value()).get_backend_name()
    except ArgumentError:
        scheme = ""
    if scheme not in ("postgresql", "postgres"):
        raise ValueError("must be a postgresql:// address")
    return value


type PostgresUrl = Annotated[SecretStr, AfterValidator(_check_postgres)]
"""A libpq address, which may have a password."""
