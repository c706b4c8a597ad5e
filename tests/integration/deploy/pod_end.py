"""How Kubernetes ends a pod: its `preStop`, then SIGTERM, and SIGKILL when the grace period is over."""

import asyncio
import signal

from tests.deployment.kubernetes import Object, container
from tests.integration.processes import Service


async def end_pod(pod: Object, service: Service) -> int:
    """End the process of a pod as its manifest says, and return its exit code. A signal's is negative."""
    try:
        async with asyncio.timeout(pod["spec"]["terminationGracePeriodSeconds"]):
            await asyncio.sleep(_seconds_before(pod))
            service.send(signal.SIGTERM)
            return await service.process.wait()
    except TimeoutError:
        service.send(signal.SIGKILL)
        return await service.process.wait()


def _seconds_before(pod: Object) -> float:
    """How long `preStop` takes; the only ones that services have are pauses."""
    match container(pod).get("lifecycle", {}).get("preStop"):
        case None:
            return 0.0
        case {"sleep": {"seconds": seconds}}:
            return seconds
        case other:
            raise AssertionError(f"cannot carry out {other}")
