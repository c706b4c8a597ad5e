"""Stored pipelines for tests, which name only the fields that matter to them."""

from datetime import UTC, datetime
from typing import Any

from pallas_contracts.pipelines import PipelineImage, PipelineVersion, StoredPipeline
from pallas_cst.canonical import source_hash

NOW = datetime(2026, 11, 23, tzinfo=UTC)


def an_image(source: str = "in x: Int\nout x\n", **fields: Any) -> PipelineImage:
    """A program. Its structural hash is that of the source without blanks."""
    hashes = {"structural_hash": source_hash("".join(source.split())), "syntactic_hash": source_hash(source)}
    types = {"inputs": {"x": "Int"}, "outputs": {"x": "Int"}}
    return PipelineImage.model_validate({"source": source, **hashes, **types, "compiled_at": NOW, **fields})


def a_stored_pipeline(name: str, **fields: Any) -> StoredPipeline:
    """A stored pipeline with one version."""
    image = an_image()
    version = PipelineVersion(
        version=1, structural_hash=image.structural_hash, syntactic_hash=image.syntactic_hash, created_at=NOW
    )
    known = {"name": f"user:alice/{name}", "namespace": "user:alice", "owner": "2bd806c97f0e00af"}
    return StoredPipeline.model_validate({**known, "versions": (version,), "active": 1, "updated_at": NOW, **fields})
