"""Which tests may run in parallel (`-n 3`).

The tests of a group run one after another in one process. A module is a group, since its tests share fixtures. Tests of
a folder that share processes which take long to start are one group, and so are storms and tests of deployments and
upgrades, which keep both processors busy by themselves. The long groups start first, or the last would run alone.
"""

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

_GROUPS = {
    "stacks": ("tests/e2e/",),
    "storms": (
        "tests/chaos/",
        "tests/conformance/",
        "tests/integration/deploy/",
        "tests/integration/stale/",
        "tests/integration/agent_gateway/test_fairness.py",
        "tests/upgrade/",
    ),
    "fast-agent-worker": ("tests/integration/fast_agent_worker/",),
}
"""The folders and modules of each group, the longest first."""


def group_of(test: str) -> str:
    """The group of a test, by its node id."""
    return next((group for group, parts in _GROUPS.items() if test.startswith(parts)), test.partition("::")[0])


class GroupScheduling(LoadScopeScheduling):
    """Gives a whole group to one process. (The marker `xdist_group` has no effect with pytest 9.2.)"""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> GroupScheduling:
    """Schedule by group."""
    return GroupScheduling(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the long groups first."""
    ranks = {group: rank for rank, group in enumerate(_GROUPS)}
    items.sort(key=lambda item: ranks.get(group_of(item.nodeid), len(ranks)))
