"""How probes and presence become an agent's health."""

from datetime import UTC, datetime
from typing import Any

import pytest

from health_monitor.judging.fold import NO_POOL, NO_WORKER, Evidence, Verdict, fold
from health_monitor.judging.needs import model_key, needs_of
from pallas_contracts.agents import AgentDefinition, Dependency, ModelDependency, WorkerPresence
from pallas_contracts.health import ProbeResult

AT = datetime(2026, 3, 12, 10, tzinfo=UTC)
ARGOS = Dependency(name="argos", key="k-argos", transport="http")
NEO4J = Dependency(name="neo4j", key="k-neo4j", transport="http")
SHELL = Dependency(name="shell", key="k-shell", transport="stdio")
MODEL = ModelDependency(provider="openai", model="gpt", key="k-openai")
AGENT = AgentDefinition(team="t", agent="a", title="A", dependencies=(ARGOS, NEO4J, SHELL), model=MODEL, updated_at=AT)


def _probe(key: str, error: str | None = None, seconds: float = 0.01) -> dict[str, ProbeResult]:
    return {key: ProbeResult(key=key, name=key, kind="mcp", error=error, duration_ms=seconds * 1000, at=AT)}


def _worker(**fields: Any) -> WorkerPresence:
    return WorkerPresence.model_validate({"worker": "w", "slots": 1, "agents": ("t.a",), "at": AT} | fields)


GOOD = _probe("k-argos") | _probe("k-neo4j") | _probe(model_key(MODEL))


def _fold(
    probes: dict[str, ProbeResult] | None = None, workers: list[WorkerPresence] | None = None, **evidence: Any
) -> Verdict:
    live = [_worker()] if workers is None else workers
    return fold(AGENT, needs_of(AGENT, {}), Evidence(GOOD | (probes or {}), live, **evidence), slow=2.0)


def test_an_agent_with_a_worker_and_reachable_dependencies_is_ok_without_a_message() -> None:
    assert _fold() == Verdict("ok", None, 1)


@pytest.mark.parametrize(
    ("probes", "message"),
    [
        (_probe("k-argos", "HTTP 500"), "argos unreachable (HTTP 500)"),
        (
            _probe("k-argos", "no answer in 3 s") | _probe("k-neo4j", "cannot connect"),
            "argos unreachable (no answer in 3 s), neo4j unreachable (cannot connect)",
        ),
        (_probe("k-neo4j", seconds=2.5), "neo4j slow"),
        (_probe("k-neo4j", seconds=2.0), None),
        (_probe(model_key(MODEL), "HTTP 401"), "model provider openai failed preflight (HTTP 401)"),
        (_probe(model_key(MODEL), seconds=2.1), "model provider openai slow"),
    ],
)
def test_an_unreachable_or_slow_dependency_is_degraded_and_named(
    probes: dict[str, ProbeResult], message: str | None
) -> None:
    assert _fold(probes) == Verdict("degraded" if message else "ok", message, 1)


def test_an_agent_whose_dependencies_are_all_unreachable_is_degraded() -> None:
    probes = _probe("k-argos", "x") | _probe("k-neo4j", "x") | _probe(model_key(MODEL), "x")
    assert _fold(probes, []).status == "degraded"


def test_an_agent_without_a_worker_is_degraded() -> None:
    assert _fold(workers=[]) == Verdict("degraded", NO_WORKER, 0)
    assert _fold(workers=[_worker(agents=("t.other",))]) == Verdict("degraded", NO_WORKER, 0)


def test_an_agent_whose_workers_all_take_no_turns_is_an_error_with_the_reason() -> None:
    assert _fold(workers=[_worker(held="after a restore")]) == Verdict("error", "after a restore", 1)
    assert _fold(workers=[_worker(held="after a restore"), _worker(worker="v")]).status == "ok"


@pytest.mark.parametrize(("waited", "status"), [(None, "degraded"), (120.0, "degraded"), (120.1, "error")])
def test_turns_that_waited_past_the_queue_timeout_without_a_worker_are_an_error(
    waited: float | None, status: str
) -> None:
    assert _fold(workers=[], waited=waited).status == status


def test_waiting_turns_are_no_error_while_a_worker_is_running() -> None:
    assert _fold(waited=1000.0).status == "ok"


def test_an_agent_that_fails_to_start_on_every_worker_is_an_error_with_the_reason() -> None:
    broken = _worker(failed={"t.a": "no such module"})
    assert _fold(workers=[broken]) == Verdict("error", "the agent failed to start: no such module", 0)
    assert _fold(workers=[_worker(agents=(), failed={"t.a": "no such module"})]).status == "error"


def test_an_agent_that_fails_to_start_on_one_of_two_workers_is_degraded() -> None:
    broken = _worker(worker="v", failed={"t.a": "no such module"})
    assert _fold(workers=[broken, _worker()]) == Verdict("degraded", "the agent failed to start on 1 of 2 workers", 1)


DATA = AgentDefinition(team="data", agent="feed", kind="data", title="feed", updated_at=AT)
SILENT = {"status": "error", "reason": "no heartbeat for 90 s"}
SLOW = {"status": "degraded", "reason": "overloaded"}
AWAY = {"status": "error", "reason": "not connected"}


def _pool(trouble: dict[str, str] | None = None, *, reaches: bool = True) -> WorkerPresence:
    agents, troubles = ("data.feed",) if reaches else (), {"data.feed": trouble} if trouble else {}
    return _worker(agents=agents, troubles=troubles)


def _fold_data(*pools: WorkerPresence, waited: float | None = None) -> Verdict:
    return fold(DATA, needs_of(DATA, {}), Evidence({}, pools, waited=waited), slow=2.0)


@pytest.mark.parametrize(
    ("pools", "verdict"),
    [
        ([_pool()], Verdict("ok", None, 1)),
        ([_pool(SLOW)], Verdict("degraded", "overloaded", 1)),
        ([_pool(SILENT)], Verdict("error", "no heartbeat for 90 s", 1)),
        ([_pool(SILENT), _pool(SILENT)], Verdict("error", "no heartbeat for 90 s", 2)),
        ([_pool(SILENT), _pool(SLOW)], Verdict("degraded", "overloaded", 2)),
        ([_pool(SILENT), _pool()], Verdict("ok", None, 2)),
    ],
)
def test_an_agent_is_as_well_as_on_the_worker_that_reports_the_least_trouble(
    pools: list[WorkerPresence], verdict: Verdict
) -> None:
    assert _fold_data(*pools) == verdict


def test_what_workers_report_that_cannot_run_an_agent_counts_only_if_none_can() -> None:
    away = _pool(AWAY, reaches=False)
    assert _fold_data(away) == Verdict("error", "not connected", 0)
    assert _fold_data(away, _pool(reaches=False)) == Verdict("error", "not connected", 0)
    assert _fold_data(away, _pool()) == Verdict("ok", None, 1)
    assert _fold_data(away, _pool(SLOW)) == Verdict("degraded", "overloaded", 1)


def test_a_data_agent_that_no_pool_can_reach_is_degraded_until_its_turns_have_waited_too_long() -> None:
    assert _fold_data() == Verdict("degraded", NO_POOL, 0)
    assert _fold_data(waited=130.0) == Verdict("error", "turns have waited 130 s and no data-pool can reach it", 0)


def test_trouble_of_an_agent_is_named_beside_its_other_issues() -> None:
    troubled = _worker(troubles={"t.a": SLOW})
    assert _fold(_probe("k-argos", "HTTP 500"), [troubled]).message == "argos unreachable (HTTP 500), overloaded"


def test_stdio_servers_are_judged_by_reports_of_workers_that_run_the_agent() -> None:
    assert _fold(workers=[_worker(stdio={"k-shell": None})]).status == "ok"
    bad = _worker(stdio={"k-shell": "exited"})
    assert _fold(workers=[bad]).message == "shell unreachable (exited)"
    elsewhere = _worker(worker="v", agents=("t.other",), stdio={"k-shell": "exited"})
    assert _fold(workers=[_worker(), elsewhere]).status == "ok"


def test_dependencies_with_an_unknown_address_are_named_and_do_not_degrade() -> None:
    verdict = _fold(unknown=frozenset({"k-argos", "k-openai"}))
    assert verdict.status == "ok"
    assert verdict.message is not None
    assert "argos not checked" in verdict.message
    assert "model provider openai not checked" in verdict.message


def test_a_dependency_that_has_not_been_probed_yet_is_degraded() -> None:
    verdict = fold(AGENT, needs_of(AGENT, {}), Evidence({}, [_worker()]), slow=2.0)
    assert verdict.status == "degraded"
    assert "argos not checked yet" in (verdict.message or "")


def _agent(name: str, *calls: str, dependency: Dependency | None = None) -> dict[str, AgentDefinition]:
    found = (dependency,) if dependency else ()
    return {
        f"t.{name}": AgentDefinition(
            team="t", agent=name, title=name, agents=calls, dependencies=found, model=MODEL, updated_at=AT
        )
    }


def test_dependencies_of_nested_sub_agents_count_and_cycles_end() -> None:
    agents = (
        _agent("harper", "research", "gone")
        | _agent("research", "deep", dependency=ARGOS)
        | _agent("deep", "harper", dependency=NEO4J)
    )
    needs = needs_of(agents["t.harper"], agents)
    assert needs.servers == (ARGOS, NEO4J)
    assert needs.models == (MODEL,)


def test_a_sub_agent_of_the_same_name_in_another_team_does_not_count() -> None:
    other = {"u.research": _agent("research", dependency=ARGOS)["t.research"]}
    assert needs_of(_agent("harper", "research")["t.harper"], other).servers == ()


def test_the_offline_model_is_no_dependency() -> None:
    offline = ModelDependency(provider="offline", model="offline", key="k")
    agent = AgentDefinition(team="t", agent="a", title="A", model=offline, updated_at=AT)
    assert needs_of(agent, {}).models == ()


def test_two_models_of_one_provider_have_two_valid_probe_keys() -> None:
    keys = {model_key(MODEL), model_key(MODEL.model_copy(update={"model": "other/model:1"}))}
    assert len(keys) == 2
    for key in keys:
        ProbeResult(key=key, name="n", kind="model", at=AT)
