"""Pipelines that are stored, and executions that wait for inputs (`constellation-mcp-rfc-018.md`, RFC-018).

Types are written as in the language, hashes are 64 hex digits.
"""

from pydantic import Field

from pallas_contracts.bounds import MANY, JsonObject, Line, Moment, Name, Text
from pallas_contracts.ids import Token
from pallas_contracts.message import Message
from pallas_contracts.turns import Principal

MOST_VERSIONS = 50
"""Versions that are kept of a pipeline; beyond that the oldest one that is not active is forgotten."""

LONGEST_SOURCE = 50_000
"""Characters of a program (RFC-018, `maxSourceLength`)."""


class UsedModule(Message):
    """A module that a program calls, with the signature that the program was checked against."""

    name: Line
    signature: Text


class PipelineImage(Message):
    """A program (KV buckets `pipeline_images` and `pipeline_drafts`, key `{owner}.{hash}`; owner `shared`: of all).

    `structural_hash` is that of its canonical form, `syntactic_hash` that of its source. `inputs` and `outputs` have
    the types by name.
    """

    source: str = Field(max_length=LONGEST_SOURCE)
    structural_hash: Token
    syntactic_hash: Token
    inputs: dict[str, str]
    outputs: dict[str, str]
    modules: tuple[UsedModule, ...] = ()
    compiled_at: Moment


class PipelineVersion(Message):
    """A version of a stored pipeline, counted from 1. `size`: bytes of its source and of what is known of it."""

    version: int
    structural_hash: Token
    syntactic_hash: Token
    size: int = 0
    created_at: Moment


class Publication(Message):
    """A pipeline as a tool of the agent `pipelines/published`. `by` has published it."""

    tool: Name
    description: Text = ""
    by: Principal
    at: Moment


class StoredPipeline(Message):
    """A pipeline by its full name, such as `user:alice/enrichment` (KV bucket `pipeline_names`, key: a digest of it).

    Only `owner`, a token of a principal, sees it, unless its namespace is `shared`. With `expires_at` it is gone then.
    `broken` is why the active version cannot run with the modules of now.
    """

    name: Line
    namespace: Line
    owner: Token
    versions: tuple[PipelineVersion, ...] = Field(max_length=MOST_VERSIONS)
    active: int
    published: Publication | None = None
    inputs: dict[str, str] = Field(default_factory=dict[str, str], max_length=MANY)
    outputs: dict[str, str] = Field(default_factory=dict[str, str], max_length=MANY)
    modules: tuple[UsedModule, ...] = ()
    broken: Text | None = None
    updated_at: Moment
    expires_at: Moment | None = None

    @property
    def active_version(self) -> PipelineVersion:
        """The version that a reference by name stands for."""
        return next(each for each in self.versions if each.version == self.active)


class Namespace(Message):
    """Whose a namespace is (KV bucket `pipeline_namespaces`, key: a digest of it): of the identity that was first.

    `short` is the namespace, such as `user:alice`; `identity` is the caller in full, as `type:id`.
    """

    short: Line
    identity: Line


class Suspension(Message):
    """An execution that lacks inputs (KV bucket `suspensions`, key `{owner}.{turn_id}`). Only `owner` may go on.

    `inputs` are the values given so far, `answers` those of the calls made so far, by their place in the program, as
    JSON text. `resumed_by` is the turn that goes on.
    """

    turn_id: Token
    owner: Token
    source: str = Field(max_length=LONGEST_SOURCE)
    structural_hash: Token
    inputs: JsonObject
    answers: dict[str, str] = Field(default_factory=dict[str, str])
    missing: dict[str, str]
    pending: tuple[str, ...]
    resumptions: int = 0
    resumed_by: Token | None = None
    created_at: Moment


class CachedAnswer(Message):
    """What a call answered (KV bucket `pipeline_cache`, key: a digest of caller, module and arguments)."""

    answer: str
    expires_at: Moment
