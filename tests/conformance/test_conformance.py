"""The official conformance suites against an ordinary agent: gateway, NATS, worker, function runtime.

What fails is in `expected/`, each with its reason, and nothing else fails.
"""

from collections.abc import Callable

import pytest
from tests.conformance.suite import Run, Suite, required
from tests.conformance.tables import PROPERTY

SUITES = [
    Suite("conformance-0.1", "2025-06-18"),
    Suite("conformance-0.1", "2025-11-25"),
    Suite("conformance-0.2", "2025-06-18"),
    Suite("conformance-0.2", "2025-11-25"),
    Suite("conformance-0.2", "2026-07-28"),
]

pytestmark = pytest.mark.timeout(400)


@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: f"{suite.package}@{suite.revision}")
def test_exactly_the_scenarios_of_the_file_of_expected_failures_fail(
    suite: Suite, run_of: Callable[[Suite], Run], record_property: Callable[[str, object], None]
) -> None:
    run = run_of(suite)
    record_property(PROPERTY, "\n".join(run.table()))
    assert run.failed == suite.expected_failures(), "\n".join(run.table())
    assert run.exit_code == 0, run.output
    assert len(run.scenarios) == run.output.count("=== Running scenario"), "a scenario left no result"


@pytest.mark.parametrize(("revision", "scenarios"), [("2025-11-25", 30), ("2026-07-28", 37)])
def test_every_scenario_required_by_a_revision_is_run(
    revision: str, scenarios: int, run_of: Callable[[Suite], Run]
) -> None:
    tried = set(run_of(Suite("conformance-0.2", revision)).scenarios)
    assert len(wanted := required(revision)) == scenarios
    assert wanted <= tried


@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: f"{suite.package}@{suite.revision}")
def test_every_expected_failure_has_a_reason(suite: Suite) -> None:
    lines = suite.expected.read_text("utf-8").splitlines()
    entries = [line for line in lines if line.lstrip().startswith("- ")]
    assert [line for line in entries if not line.partition(" # ")[2].strip()] == []
