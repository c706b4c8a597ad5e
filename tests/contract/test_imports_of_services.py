"""Nothing of a service happens while it is imported, so that it may be started by a fork of what has imported it."""

import json
import subprocess
import sys
from typing import Any

import pytest
from tests.contract.test_layout import SERVICES
from tests.contract.tree import ROOT


@pytest.fixture(scope="module")
def imports() -> dict[str, Any]:
    """What happens while all modules of services and shared packages are imported."""
    command = (sys.executable, "-m", "tests.contract.imports_of_services")
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_no_socket_thread_process_file_or_variable_is_used_while_services_are_imported(imports: dict[str, Any]) -> None:
    assert imports["found"] == []
    assert imports["threads"] == []
    assert imports["made"] == []
    assert {f"{service.module}.app" for service in SERVICES} <= set(imports["imported"])


@pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.module)
def test_every_service_is_started_by_the_same_two_lines(service: Any) -> None:
    source = (service.folder / "src" / service.module / "__main__.py").read_text("utf-8")
    lines = ["from pallas_runtime.start import start", 'if __name__ == "__main__":', f'    start("{service.module}")']
    assert [line for line in source.splitlines() if line and not line.startswith('"""')] == lines
