"""What is known of programs and models without running them is what fast-agent makes of them."""

import json
import os
from pathlib import Path
from subprocess import run
from textwrap import indent

import pytest
from tests.integration.fast_agent_worker.stage import python

from pallas_teams import load_team

PYTHON = python()
pytestmark = pytest.mark.timeout(200)

HEAD = "import asyncio\nfrom fast_agent import FastAgent\n"
AGENT = "@fast.agent({name!r}, instruction='x')\nasync def f(): ...\n"
RUN = "async with fast.run() as agent:\n    await agent.interactive()\n"
START = "if __name__ == '__main__':\n    asyncio.run(main())\n"


def main(*parts: str) -> str:
    """A program that makes its agents in `main()`."""
    return HEAD + "async def main():\n    fast = FastAgent('t')\n" + indent("".join((*parts, RUN)), "    ") + START


FILES = {
    "fast-agent.yaml": "default_model: passthrough\n",
    "one.py": main(AGENT.format(name="one")),
    "two.py": main("fast.load_agents('cards')\n"),
    "cards/two.md": "---\nname: two\n---\nYou help.\n",
    "three.py": f"{HEAD}from own import add\nfast = FastAgent('t')\nadd(fast)\n",
    "own.py": "def add(fast):\n" + indent(AGENT.format(name="three"), "    "),
    "needs.py": "import sys\n" + main(AGENT.format(name="needs")).replace("asyncio.run(main())", "sys.exit(2)"),
    "fails.py": main("raise ValueError\n", AGENT.format(name="fails")),
    "never.py": main(AGENT.format(name="never")).replace(START, ""),
}
FAILED = {
    "needs": "it is run without arguments, and ended before it ran its FastAgent",
    "fails": "it ended before it ran its FastAgent: ValueError (fails.py:5)",
    "never": "it makes no FastAgent when it is imported, and runs none when it is started",
}

LATE = """
import queue, sys, threading
from pathlib import Path
from fast_agent_worker.project import run_program
from pallas_contracts.errors import Rejected

run_program.RUN_SECONDS, sys.opened, sys.ended = 0.1, threading.Event(), queue.Queue()
try:
    run_program.instances_of_a_run(Path(sys.argv[1]), Path(sys.argv[1]).parent, "")
except Rejected as error:
    print(error.message)
sys.opened.set()
print(sys.ended.get())
"""
LATE_PROGRAM = "import sys\n" + main(AGENT.format(name="late"), "sys.opened.wait()\n").replace(
    START, "try: asyncio.run(main())\nexcept BaseException as error: sys.ended.put(type(error).__name__)\n"
)

MODELS = """
from fast_agent.core.exceptions import ModelConfigError
from fast_agent.llm.model_database import ModelDatabase
from fast_agent.llm.model_factory import ModelFactory
from pallas_teams.fast_agent.models import provider_of

for model in {*ModelFactory.MODEL_PRESETS, *ModelDatabase.MODELS}:
    try:
        provider = ModelFactory.resolve_model_spec(model).provider.value
    except ModelConfigError:
        continue
    if " " not in model and provider_of(model) != provider:
        print(model, provider, provider_of(model))
"""


def test_agents_that_are_made_when_a_program_is_run_can_be_made(tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    assert {*load_team(tmp_path, {}).agents} == {"one", "two", "three", *FAILED}
    done = run([PYTHON, "-m", "fast_agent_worker.check", tmp_path], capture_output=True, check=True)
    found = json.loads(done.stdout)
    assert (set(found["hosted"]), found["failed"]) == ({"one", "two", "three"}, FAILED)


def test_a_program_that_is_late_does_not_run_its_agents_either(tmp_path: Path) -> None:
    (tmp_path / "late.py").write_text(LATE_PROGRAM, "utf-8")
    done = run([PYTHON, "-c", LATE, tmp_path / "late.py"], capture_output=True, check=True, text=True)
    assert done.stdout.splitlines() == ["it did not come to run its FastAgent within 0.1 s", "_Runs"]


def test_the_provider_of_a_model_is_the_one_that_fast_agent_finds() -> None:
    done = run([PYTHON, "-c", MODELS], capture_output=True, check=True, text=True, env=os.environ)
    assert done.stdout == ""
