"""The settings of the service. Names of the contracts (`DAEDALUS_…`, `MNEMOSYNE_…`, `SECRET_KEY`) are read, too."""

from pydantic import Field, SecretStr

from pallas_credentials.settings import PasswordHash
from pallas_postgres.settings import PostgresUrl
from pallas_runtime.settings import Settings


class WorkspacesSettings(Settings):
    """Settings of workspaces. Without a password hash nobody can log in."""

    postgres_url: PostgresUrl = Field(
        SecretStr("postgresql://postgres@127.0.0.1:5432/postgres"),
        description="database of this service; may hold a password",
    )
    postgres_pool: int = Field(20, ge=4, le=100, description="maximum number of connections to Postgres")
    admin_password_hash: PasswordHash = Field(None, description="Argon2 hash of the password of `admin`, who logs in")
