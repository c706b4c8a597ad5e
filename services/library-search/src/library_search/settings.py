"""The settings of the service."""

import re
from typing import Annotated

from pydantic import AfterValidator, Field, SecretStr

from pallas_credentials.settings import PasswordHash
from pallas_postgres.engine import PostgresUrl
from pallas_runtime.settings import Names, Settings

_LANGUAGE = re.compile(r"[a-z_]{1,63}")


def _check_languages(value: str) -> str:
    names = languages_of(value)
    if not names or not all(_LANGUAGE.fullmatch(name) for name in names):
        raise ValueError("must be names of Postgres text search configurations, separated by commas")
    return value


def languages_of(value: str) -> tuple[str, ...]:
    """The languages in a comma-separated list."""
    return tuple(name.strip() for name in value.split(",") if name.strip())


class LibrarySearchSettings(Settings):
    """Settings of library-search. Without the password hash no documents can be added."""

    postgres_url: PostgresUrl = Field(
        SecretStr("postgresql://postgres@127.0.0.1:5432/library_search"),
        description="database of this service alone; may hold a password",
    )
    postgres_pool: int = Field(10, ge=2, le=100, description="maximum number of connections to Postgres")
    admin_password_hash: PasswordHash = Field(None, description="Argon2 hash of the password of `admin`")
    search_languages: Annotated[str, AfterValidator(_check_languages)] = Field(
        "english,simple",
        description="Postgres text search configurations for indexing and searching; highlights use the first",
    )
    max_document_bytes: int = Field(32 * 1024 * 1024, ge=1024, description="size limit of a document, in bytes")
    public_url: str | None = Field(None, description="base URL under which callers reach this service")
    allowed_hosts: Names = Field((), description="further Host headers to accept; '*' accepts every one")
    allowed_origins: Names = Field((), description="further Origin headers to accept")
