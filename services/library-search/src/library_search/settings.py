"""What the service can be told."""

import re
from typing import Annotated

from pydantic import AfterValidator, Field, SecretStr

from pallas_credentials.settings import PasswordHash
from pallas_postgres.settings import PostgresUrl
from pallas_runtime.settings import Names, Settings

_LANGUAGE = re.compile(r"[a-z_]{1,63}")


def _check_languages(value: str) -> str:
    names = languages_of(value)
    if not names or not all(_LANGUAGE.fullmatch(name) for name in names):
        raise ValueError("must be names of text search configurations of Postgres, separated by commas")
    return value


def languages_of(value: str) -> tuple[str, ...]:
    """The languages of a setting that lists them."""
    return tuple(name.strip() for name in value.split(",") if name.strip())


class LibrarySearchSettings(Settings):
    """Settings of a library-search. Without the password hash nobody can add documents."""

    postgres_url: PostgresUrl = Field(
        SecretStr("postgresql://postgres@127.0.0.1:5432/library_search"),
        description="a database of this service's own; may hold a password",
    )
    postgres_pool: int = Field(10, ge=2, le=100, description="connections to Postgres at most")
    admin_password_hash: PasswordHash = Field(None, description="Argon2 hash of the password of `admin`")
    search_languages: Annotated[str, AfterValidator(_check_languages)] = Field(
        "english,simple", description="text search configurations by which words are found; highlights use the first"
    )
    max_document_bytes: int = Field(32 * 1024 * 1024, ge=1024, description="largest document that is taken")
    public_url: str | None = Field(None, description="base URL under which callers reach this service")
    allowed_hosts: Names = Field((), description="further Host headers to accept; '*' accepts every one")
    allowed_origins: Names = Field((), description="further Origin headers to accept")
