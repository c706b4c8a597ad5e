"""Reads and checks team folders. Knows nothing of workers, brokers, or how agents are executed."""

from pallas_teams.changes import FolderChanges, folder_digest, folder_files
from pallas_teams.faults import Fault, TeamFaults
from pallas_teams.loader import SECRETS_FILE, load_each, load_team, load_teams
from pallas_teams.model import (
    UNBOUNDED,
    AgentConfig,
    HttpServer,
    ModelCapabilities,
    ModelRef,
    ProviderConfig,
    ServerConfig,
    StdioServer,
    TeamFolder,
    reveal,
)

__all__ = [
    "SECRETS_FILE",
    "UNBOUNDED",
    "AgentConfig",
    "Fault",
    "FolderChanges",
    "HttpServer",
    "ModelCapabilities",
    "ModelRef",
    "ProviderConfig",
    "ServerConfig",
    "StdioServer",
    "TeamFaults",
    "TeamFolder",
    "folder_digest",
    "folder_files",
    "load_each",
    "load_team",
    "load_teams",
    "reveal",
]
