"""One stage for all tests of the team: fast-agent takes seconds to import."""

from collections.abc import AsyncGenerator, Generator

import pytest
from tests.conftest import a_nats
from tests.integration.fast_agent_worker.anthropic_model import AnthropicModel, anthropic_model
from tests.integration.fast_agent_worker.stage import Stage, a_stage, until_hosted


@pytest.fixture(scope="package")
def claude() -> Generator[AnthropicModel]:
    """What stands for Anthropic."""
    with anthropic_model() as running:
        yield running


@pytest.fixture(scope="package")
async def stage(claude: AnthropicModel, tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Stage]:
    """A gateway and a worker that hosts the team of the upstream Pallas."""
    with a_nats() as url:
        async with a_stage(url, tmp_path_factory.mktemp("stage"), anthropic_url=claude.url) as running:
            for agent in (
                "harper",
                "pipeline",
                "clerk",
                "research",
                "late",
                "early",
                "twice",
                "chief",
                "deputy",
                "claude",
            ):
                await until_hosted(running, agent)
            yield running
