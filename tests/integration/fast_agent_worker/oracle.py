"""Compares fast-agent 0.9 with what a worker makes of its folders, by hand:
`python -m tests.integration.fast_agent_worker.oracle PYTHON [PROGRAM ...]`.

PYTHON is that of an environment with fast-agent-mcp 0.9.30. It runs the example programs, or those that are named, in a
folder with settings in the words of 0.9. fast-agent 0.10 runs the same programs with the settings that a worker
translates and forces. Both have the same scripted model. A line for each program says what of the requests to models
differs, and whether the answer does.
"""

import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import yaml
from tests.embedded import free_port
from tests.integration.fast_agent_worker.scripted_model import Model, scripted_model
from tests.integration.fast_agent_worker.test_examples import (
    MESSAGE,
    PROGRAMS,
    PYTHON,
    STOCK,
    placed,
    shown,
    wait_for_port,
    write_examples,
)

from pallas_teams.fast_agent.translate import settings_of

type Ran = dict[str, tuple[str, list[str]]]

OF_0_9: dict[str, Any] = {"auto_sampling": True, "mcp_timeline": {"steps": 10}, "mcp_ui_mode": "disabled"}
NEWER = ("custom_handler", "mcp_expert", "sandbox", "url_demo", "t0_image")
"""Programs that 0.9.30 does not have in this form."""


def run(python: str, names: Sequence[str], folder: Path, model: Model) -> Ran:
    """The answer of each program, and what models were sent."""
    wanted = [(str(folder), placed(PROGRAMS[name][0]), PROGRAMS[name][1], MESSAGE) for name in names]
    found: Ran = {}
    with Popen([python, STOCK / "run.py"], stdin=PIPE, stdout=PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(wanted) + "\n")
        process.stdin.flush()
        for name in names:
            line = process.stdout.readline()
            if not line:
                print(f"{python} ended in {name}")
                break
            found[name] = json.loads(line), shown(model.taken(), folder)
            process.stdin.write("\n")
            process.stdin.flush()
    return found


def folders(place: Path, url: str, server: str) -> tuple[Path, Path]:
    """A folder as 0.9 has it, and one as a worker runs in it."""
    old, new = place / "old", place / "new"
    for folder in (old, new):
        write_examples(folder, url, server)
        config = folder / "fast-agent.yaml"
        settings = yaml.safe_load(config.read_text("utf-8")) | OF_0_9
        del settings["mcp"]["servers"]["sandbox_server"]
        config.write_text(yaml.safe_dump(settings), "utf-8")
    translated = settings_of(new, os.environ)
    (new / "fast-agent.yaml").write_text(yaml.safe_dump(dict(translated.settings)), "utf-8")
    print("\n".join(translated.notes))
    return old, new


def parts_of(requests: list[str]) -> dict[str, set[str]]:
    """What models were sent, in parts. fast-agent's own tools have no server in their names."""
    read = [json.loads(each) for each in requests]
    tools = [tool for each in read for tool in each["tools"]]
    own = [tool for tool in tools if "__" not in tool["function"]["name"]]
    return {
        "messages": {json.dumps(each["messages"]) for each in read},
        "forms": {json.dumps(each["response_format"]) for each in read},
        "tools of servers and agents": {json.dumps(tool) for tool in tools if tool not in own},
        "names of its own tools": {tool["function"]["name"] for tool in own},
        "its own tools": {json.dumps(tool) for tool in own},
    }


def difference(before: set[str], after: set[str]) -> str:
    """The first place where two parts differ."""
    old, new = ("\n".join(sorted(side)) for side in (before - after, after - before))
    at = max(0, next((at for at, (one, other) in enumerate(zip(old, new, strict=False)) if one != other), 0) - 40)
    return f"{old[at : at + 120]!r} is now {new[at : at + 120]!r}"


def main() -> None:
    """Compare, and print a line for each program."""
    port, names = free_port(), sys.argv[2:] or [name for name in PROGRAMS if name not in NEWER]
    with (
        tempfile.TemporaryDirectory() as place,
        scripted_model() as model,
        Popen([PYTHON, STOCK / "serve.py", str(port)]) as server,
    ):
        try:
            wait_for_port(port)
            old, new = folders(Path(place), model.url, f"http://127.0.0.1:{port}/mcp")
            before, after = run(sys.argv[1], names, old, model), run(str(PYTHON), names, new, model)
        finally:
            server.kill()
    for name, (text, requests) in before.items():
        other, others = after[name]
        olds, news = parts_of(requests), parts_of(others)
        differing = [part for part in olds if olds[part] != news[part]]
        print(
            f"{name}: answer {'same' if text == other else 'differs'}, different: {', '.join(differing) or 'nothing'}"
        )
        for part in differing[: -1 if "its own tools" in differing else None]:
            print(f"    {part}: {difference(olds[part], news[part])}")


if __name__ == "__main__":
    main()
