"""Folding the log and setting budgets are not denied on a broker with rights for each service."""

import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.builders import turn_requested
from tests.integration.broker.guarded import ALPHA, start, worker
from tests.integration.real_parts import OWNED, a_worker, until

from health_monitor.spending.keep_spending import KeepSpending
from pallas_bus.connection import connect
from pallas_bus.kv import snapshot
from pallas_bus.streams import declare
from pallas_cli.commands.budgets import delete_budget, set_budget, show_budgets, whose_of
from pallas_cli.costs import show_costs
from pallas_cli.options import WHOLE
from pallas_contracts.catalog import CLI, GATEWAY, MONITOR, PIPELINES, SPENDING
from pallas_contracts.errors import Unavailable
from pallas_turns.budgets import watch_budgets
from pallas_turns.queue import submit

LLM = "  harper: {model: offline, title: Harper}\n"


async def test_what_is_spent_is_folded_shown_and_bounded_within_the_rights_of_each_service(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    guarded = start(tmp_path, edit=lambda text: text + LLM)
    try:
        async with AsyncExitStack() as stack:
            buses = {
                user: await stack.enter_async_context(connect(guarded.access(user), user))
                for user in (GATEWAY, MONITOR, PIPELINES, CLI)
            }
            with pytest.raises(Unavailable, match="KV_budgets cannot be read: it has no leader, or does not exist yet"):
                await show_budgets(buses[CLI], page=WHOLE, as_json=False)
            await declare(buses[GATEWAY], *OWNED)
            seed = guarded.seed(worker(ALPHA))
            await stack.enter_async_context(a_worker(guarded.server.url, guarded.teams[ALPHA], nats_seed=seed))
            known = [await stack.enter_async_context(watch_budgets(buses[user])) for user in (GATEWAY, PIPELINES)]
            folding = asyncio.create_task(KeepSpending(buses[MONITOR]).run())
            await submit(buses[GATEWAY], turn_requested(ALPHA, "harper", arguments={"message": "hello"}))
            team = whose_of(ALPHA, None, None)
            await set_budget(
                buses[CLI], whose=team, tokens_per_day=1, money_per_day=None, currency="USD", as_json=False
            )

            async def used_up() -> bool:
                return all(budgets.share(ALPHA, None) == 1 for budgets in known)

            await until(used_up)
            assert len(await snapshot(buses[CLI], SPENDING)) == 1
            await show_budgets(buses[CLI], page=WHOLE, as_json=False)
            await show_costs(
                buses[CLI], by="day", since="1h", until=None, team=None, caller=None, prices=None, as_json=False
            )
            capsys.readouterr()
            await delete_budget(buses[CLI], whose=team, as_json=True)
            assert json.loads(capsys.readouterr().out)["deleted"]
            folding.cancel()
            await asyncio.gather(folding, return_exceptions=True)
        assert guarded.violations == []
    finally:
        guarded.server.close()
