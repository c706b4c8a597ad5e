"""Which tests may run in parallel (`-n 2`).

The tests of a group run one after another in one process. A module is a group, since its tests share fixtures. All
tests that start whole stacks or storms are one group: in parallel they would save no time, and would miss the bounds in
seconds that they check. That group takes longest, so it starts first.
"""

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

_WHOLE_MACHINE = (
    "tests/chaos/",
    "tests/conformance/",
    "tests/e2e/",
    "tests/integration/deploy/",
    "tests/integration/stale/",
    "tests/integration/agent_gateway/test_fairness.py",
)


_SHARED_STAGE = "tests/integration/fast_agent_worker/"
"""A folder whose tests share processes that take long to start."""


def group_of(test: str) -> str:
    """The group of a test, by its node id."""
    if test.startswith(_SHARED_STAGE):
        return _SHARED_STAGE
    return "machine" if test.startswith(_WHOLE_MACHINE) else test.partition("::")[0]


class GroupScheduling(LoadScopeScheduling):
    """Gives a whole group to one process. (The marker `xdist_group` has no effect with pytest 9.2.)"""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> GroupScheduling:
    """Schedule by group."""
    return GroupScheduling(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest group first."""
    items.sort(key=lambda item: group_of(item.nodeid) != "machine")
