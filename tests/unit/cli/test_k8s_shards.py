"""How many shards of the log a cluster's users are made for."""

from typing import Any

import pytest

from pallas_cli.k8s.plan import shards_of
from pallas_cli.refused import WrongUsage


def manifest(*values: str) -> dict[str, Any]:
    """A Deployment with this value of the variable, or without it."""
    env = [{"name": "PALLAS_HOST", "value": "0.0.0.0"}, *({"name": "PALLAS_LOG_SHARDS", "value": it} for it in values)]
    return {"kind": "Deployment", "spec": {"template": {"spec": {"containers": [{"name": "service", "env": env}]}}}}


def test_the_users_are_made_for_the_shards_that_the_manifests_name() -> None:
    assert shards_of([manifest("3"), manifest(), {"kind": "ConfigMap"}, manifest("3")]) == 3
    assert shards_of([manifest()]) == 1


@pytest.mark.parametrize("values", [("2", "3"), ("0",), ("65",), ("two",)])
def test_manifests_that_do_not_agree_or_name_no_number_are_refused(values: tuple[str, ...]) -> None:
    with pytest.raises(WrongUsage, match="one number from 1 to 64 in all manifests"):
        shards_of([manifest(value) for value in values])
