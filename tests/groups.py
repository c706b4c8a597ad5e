"""Which tests may run in parallel (`-n 2 --dist loadgroup`).

The tests of a group run one after another in one process. A module is a group, since its tests share what it starts.
Whatever starts whole stacks or makes a storm is one group for all: two of these beside each other take as long as one
behind the other, and are late for what they promise in seconds. It takes longest, so it begins first.
"""

import pytest

_WHOLE_MACHINE = (
    "tests/chaos/",
    "tests/conformance/",
    "tests/e2e/",
    "tests/integration/deploy/",
    "tests/integration/stale/",
    "tests/integration/agent_gateway/test_fairness.py",
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put every test into its group, and the longest group first."""
    for item in items:
        module = item.nodeid.partition("::")[0]
        name = "machine" if module.startswith(_WHOLE_MACHINE) else module
        item.add_marker(pytest.mark.xdist_group(name))
    items.sort(key=lambda item: not item.nodeid.startswith(_WHOLE_MACHINE))
