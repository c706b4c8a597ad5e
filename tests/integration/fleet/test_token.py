"""Coder's token is not kept: the fleet is a process of its own, with everything logged and traced, and Coder fails."""

import asyncio
from contextlib import ExitStack
from pathlib import Path

from tests.bench.processes import running
from tests.integration.fleet.lab import Lab
from tests.integration.fleet.test_coder_away import CALLS
from tests.integration.real_parts import stored, until
from tests.otlp import collecting
from tests.requirements import requirement

from pallas_bus.connection import connect
from pallas_contracts.catalog import CLI
from pallas_demo.coder import Fault
from pallas_demo.coder.faults import Mode

FAULTS: tuple[Mode, ...] = ("refuse", "reset", "bad_gateway", "html", "expired", "lose_answer")


@requirement("A-3.1.1", "A-4.3.1")
async def test_the_token_of_coder_is_in_no_answer_log_line_span_turn_or_bucket(lab: Lab, tmp_path: Path) -> None:
    answers = list[str]()
    async with collecting() as collector:
        env = {
            "PALLAS_NATS_URL": lab.nats_url,
            "PALLAS_PORT": "{port}",
            "PALLAS_LOG_LEVEL": "DEBUG",
            "PALLAS_DRAIN_SECONDS": "1",
            "PALLAS_CODER_URL": lab.coder.url,
            "PALLAS_CODER_TOKEN": lab.coder.token,
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.http,
            "OTEL_BSP_SCHEDULE_DELAY": "100",
        }
        with ExitStack() as processes:
            fleet = processes.enter_context(running("fleet", tmp_path, "fleet", env=env))
            await asyncio.to_thread(fleet.wait_for, "readyz")

            async def call(tool: str) -> None:
                answers.append(str((await lab.result(tool, **CALLS[tool])).model_dump()))

            await lab.call("create_agent", name="papi", project="Setup", spec="say hello")
            await lab.coder.agent("papi").until("stable")
            for mode in FAULTS:
                await lab.coder.fault(Fault(mode=mode))
                await asyncio.gather(*(call(tool) for tool in CALLS if tool not in ("create_agent", "delete_agent")))
                await lab.coder.heal()
            for tool in ("list_agents", "create_agent", "start_agent_task", "stop_agent_task", "delete_agent"):
                await call(tool)

            async def traced() -> bool:
                return sum(span.name == "conclude_turn" for span in collector.spans) >= len(answers)

            await until(traced)
            await asyncio.to_thread(fleet.stop)
            async with connect(lab.nats_url, CLI) as bus:
                written = await stored(bus)
            written |= {
                "log": fleet.output().encode(),
                "spans": b"\n".join(collector.requests),
                "answers": "\n".join(answers).encode(),
            }
    assert b"refuses our token" in written["answers"]
    assert b"refuses our token" in written["TURN_LOG"]
    assert b"papi" in written["KV_fleet_agents"]
    assert len(written["log"]) > 1000
    token = lab.coder.token.encode()
    assert [where for where, text in written.items() if token in text] == []
