"""Every command of a document works as it is written, unless its block says what it needs that no test has.

What the page about trouble says that a reader sees is what programs print.
"""

import re
import shutil
from pathlib import Path

import pytest
from tests.contract.tree import ROOT
from tests.e2e.auth_stack import AuthStack
from tests.e2e.documents import lines_to_run, moved, pallas, run
from tests.requirements import requirement

PATHS = ("*.md", "docs/*.md", "docs/how-to/*.md", "docs/explanation/*.md", "*/README.md", "*/*/README.md")
TUTORIALS = ("docs/tutorials/first-data-agent.md", "docs/tutorials/first-pipeline.md")
"""Those that begin with `make up`. The others start a stack of their own in tests/e2e/test_tutorials.py."""
DOCUMENTS = {page for path in (*PATHS, *TUTORIALS) for page in ROOT.glob(path)}
PAGES = [page for page in sorted(DOCUMENTS) if lines_to_run(page)]
ELSEWHERE = {
    "http://puck.incus:23030/teams/kottos": "http://localhost:23030/teams/scholars",
    "http://other.incus:23030/teams/kottos": "http://localhost:23030",
}
"""Addresses of other machines, and what stands for them."""
TROUBLE = ROOT / "docs" / "how-to" / "when-it-does-not-work.md"
PROVOKED = {
    "port 23060 is in use": "pallas up --data another --port-base 23030",
    "the data folder … is in use by another instance": "pallas up",
    "cannot be reached": "pallas rpc demo/harper harper '{}' --url http://127.0.0.1:9",
    "there is no agent 'harpr'; did you mean 'harper'?": "pallas agents show harpr",
}
"""Symptoms of the page about trouble, and a command that shows each."""
PRINTED = {
    "bootstrap: uv is missing and no Python 3 here …": "bootstrap",
    "not ready in time: …": "cli/src/pallas_cli/processes/supervisor.py",
    "no worker is running": "services/health-monitor/src/health_monitor/judging/fold.py",
    "busy": "docs/errors.md",
    "unauthorized": "docs/errors.md",
}
"""Symptoms that take a broken machine or a stack of their own, and the file that has their text."""
OF_OTHERS = {"invalid peer certificate: UnknownIssuer", "uv: command not found"}
"""Symptoms that other programs print: uv and the shell."""


@pytest.fixture
def folder(auth_stack: AuthStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What a reader has: the examples, a team folder, some papers, and the data folder of the stack."""
    shutil.copytree(ROOT / "docs" / "examples", tmp_path, dirs_exist_ok=True)
    shutil.copytree(auth_stack.teams / "scholars", tmp_path / "teams" / "kottos")
    (tmp_path / "teams" / "demo").symlink_to(ROOT / "teams" / "demo")
    (tmp_path / "papers").mkdir()
    (tmp_path / "papers" / "one.md").write_text("# One\n\nA paper.", "utf-8")
    shutil.copytree(tmp_path / "papers", tmp_path / "handbook")
    (tmp_path / ".pallas").symlink_to(auth_stack.ready["data"])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert pallas("rpc", "demo/harper", "harper", '{"message": "hello"}')[0] == 0, "there is a turn to look at"
    return tmp_path


@requirement("K-doc-1")
@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_commands_of_a_document_work(page: Path, auth_stack: AuthStack) -> None:
    failed: list[str] = []
    for line in lines_to_run(page):
        for address, ours in ELSEWHERE.items():
            line = line.replace(address, ours)
        done, printed = run(moved(line, auth_stack.stack))
        failed += [] if done else [f"{line}\n{printed}"]
    assert not failed, "\n\n".join(failed)


@requirement("K-doc-1")
@pytest.mark.usefixtures("folder")
def test_what_the_page_about_trouble_shows_is_what_programs_print(auth_stack: AuthStack) -> None:
    seen = re.findall(r"^\| [^|`]*`([^`]+)`", TROUBLE.read_text("utf-8"), re.MULTILINE)
    assert set(seen) == {*PROVOKED, *PRINTED, *OF_OTHERS}
    for symptom, path in PRINTED.items():
        assert symptom.strip("… ") in (ROOT / path).read_text("utf-8")
    for symptom, line in PROVOKED.items():
        done, printed = run(at_its_ports(line, auth_stack))
        shown = re.escape(at_its_ports(symptom, auth_stack)).replace("…", ".*")
        assert (done, bool(re.search(shown, printed))) == (False, True), f"{line}\n{printed}"


def at_its_ports(text: str, auth_stack: AuthStack) -> str:
    """A text with the ports of the stack in place of the default ones."""
    return re.sub(r"\b230[36]0\b", lambda port: str(int(port[0]) - 23030 + auth_stack.stack.base), text)
