"""One stage for all tests of the team: fast-agent takes seconds to import."""

from collections.abc import AsyncGenerator

import pytest
from tests.conftest import a_nats
from tests.integration.fast_agent_worker.stage import Stage, a_stage, until_hosted


@pytest.fixture(scope="package")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Stage]:
    """A gateway and a worker that hosts the team of the upstream Pallas."""
    with a_nats() as url:
        async with a_stage(url, tmp_path_factory.mktemp("stage")) as running:
            for agent in ("harper", "pipeline", "clerk", "research", "late", "early", "twice", "chief", "deputy"):
                await until_hosted(running, agent)
            yield running
