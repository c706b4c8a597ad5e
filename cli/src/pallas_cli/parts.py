"""The parts of a platform to which commands connect, with their addresses on one machine."""

from collections.abc import Mapping
from typing import Literal

type Part = Literal[
    "nats",
    "postgres",
    "registry",
    "gateway",
    "team_lifecycle",
    "library_search",
    "pipelines",
    "data_pool",
    "workspaces",
]

DEFAULTS: Mapping[Part, str] = {
    "nats": "nats://127.0.0.1:23060",
    "postgres": "postgresql://127.0.0.1:23063",
    "registry": "http://127.0.0.1:23030",
    "gateway": "http://127.0.0.1:23050",
    "team_lifecycle": "http://127.0.0.1:23066",
    "library_search": "http://127.0.0.1:23067",
    "pipelines": "http://127.0.0.1:23068",
    "data_pool": "http://127.0.0.1:23069",
    "workspaces": "http://127.0.0.1:23072",
}
