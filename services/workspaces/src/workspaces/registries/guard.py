"""Connections that lead only to addresses which the policy allows."""

from typing import Any

from pallas_runtime.http import guard
from workspaces.certificates import trusted
from workspaces.registries.policy import Policy


class GuardedTransport(guard.GuardedTransport):
    """A transport whose connections the policy allows. `options` are those of the transport of `pallas_runtime`."""

    def __init__(self, policy: Policy, **options: Any) -> None:
        super().__init__(policy.allows, ssl_context=trusted(), **options)
