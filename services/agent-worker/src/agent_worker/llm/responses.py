"""An HTTP client that counts the responses of a provider, also those that the provider's SDK retries by itself."""

from collections.abc import Callable
from typing import Any

import httpx2

from pallas_mcp_calls.model_answers import bound_answer

type Counted = Callable[[str, str], None]
"""Called with the provider and how a request ended: `2xx`, `429`, `4xx`, `5xx`, `timeout` or `unreachable`."""


def ignore(_provider: str, _code: str) -> None:
    """Count nothing."""


class CountingClient(httpx2.AsyncClient):
    """Reports each response of `provider` to `counted`, or why there was none. Its answers are bounded."""

    def __init__(self, provider: str, counted: Counted, **options: Any) -> None:
        hooks = {"response": [bound_answer]}
        super().__init__(headers={"accept-encoding": "identity"}, event_hooks=hooks, **options)
        self._provider = provider
        self._counted = counted

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request."""
        try:
            response = await super().send(request, **options)
        except httpx2.TimeoutException:
            self._counted(self._provider, "timeout")
            raise
        except httpx2.TransportError:
            self._counted(self._provider, "unreachable")
            raise
        self._counted(self._provider, _class_of(response.status_code))
        return response


def _class_of(status: int) -> str:
    return "429" if status == 429 else f"{status // 100}xx"
