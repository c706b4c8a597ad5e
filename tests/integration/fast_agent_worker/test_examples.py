"""Every example program of the installed fast-agent, unchanged.

Called over MCP, it sends its models what it sends where fast-agent itself runs it, and answers the same. Its servers
and models are stood for by ours. The configuration and model overlays do that; the programs are not changed.
"""

import json
import shutil
import socket
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import suppress
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from typing import Any

import pytest
import yaml
from tests.embedded import free_port
from tests.integration.fast_agent_worker.scripted_model import Model, scripted_model
from tests.integration.fast_agent_worker.stage import Stage, a_stage, python, until_hosted

from pallas_teams import load_team

PYTHON = python()
pytestmark = pytest.mark.timeout(400)
STOCK = Path(__file__).parent / "stock"
RESOURCES = next(PYTHON.parents[1].glob("lib/python*/site-packages/fast_agent/resources"))

PROGRAMS = {
    "agents_as_tools_extended": ("workflows/agents_as_tools_extended.py", "PMO-orchestrator"),
    "agents_as_tools_simple": ("workflows/agents_as_tools_simple.py", "PMO-orchestrator"),
    "chaining": ("workflows/chaining.py", "post_writer"),
    "evaluator": ("workflows/evaluator.py", "cover_letter_writer"),
    "human_input": ("workflows/human_input.py", "default"),
    "maker": ("workflows/maker.py", "reliable_classifier"),
    "orchestrator": ("workflows/orchestrator.py", "orchestrate"),
    "parallel": ("workflows/parallel.py", "parallel"),
    "router": ("workflows/router.py", "route"),
    "researcher": ("researcher/researcher.py", "Researcher"),
    "researcher_eval": ("researcher/researcher-eval.py", "Researcher_Evaluator"),
    "researcher_imp": ("researcher/researcher-imp.py", "EnhancedResearcher"),
    "analysis": ("data-analysis/analysis.py", "data_analysis"),
    "campaign": ("data-analysis/analysis-campaign.py", "research_campaign_creator"),
    "setup": ("../setup/agent.py", "default"),
    "custom_handler": ("mcp/elicitations/custom_handler_demo.py", "sandbox_custom"),
    "sandbox": ("mcp/elicitations/sandbox_demo.py", "sandbox"),
    "url_demo": ("mcp/elicitations/url_demo.py", "url_demo"),
    "t0": ("tensorzero/agent.py", "default"),
    "t0_simple": ("tensorzero/simple_agent.py", "default"),
    "t0_image": ("tensorzero/image_demo.py", "tensorzero_image_tester"),
    "acp_expert": ("hf-toad-cards/agent-cards/acp-expert.md", "acp-expert"),
    "mcp_expert": ("hf-toad-cards/agent-cards/mcp-expert.md", "mcp-expert"),
}
"""By the agent's name here. TensorZero's gateway is stood for by the model, and nobody answers at a terminal."""
MODELS = (
    "sonnet",
    "haiku",
    "gpt-4.1",
    "gpt-5-nano",
    "o3-mini",
    "claude-haiku-4-5",
    "passing",
    "o3",
    "gpt-5",
    "gpt-oss",
)
SERVERS = ("time", "fetch", "filesystem", "brave", "interpreter", "sequential", "tester")
STDIO = ("sandbox_server", "url_server")
MESSAGE = "Write about the moon."


def placed(path: str) -> str:
    """Where a program or a card is in the folder: two programs have one name."""
    if path.endswith(".md"):
        return f".fast-agent/agent-cards/{Path(path).name}"
    return path if path.startswith("tensorzero/") else Path(path).name


def write_examples(folder: Path, url: str, server: str) -> None:
    """The programs with a configuration, and an `agents.yaml` that names them all."""
    folder.mkdir()
    agents = {}
    shutil.copytree(RESOURCES / "examples/hf-toad-cards", folder / ".fast-agent")
    for name, (path, agent) in PROGRAMS.items():
        if path.endswith(".md"):
            agents[name] = {"card": placed(path), "agent": agent}
        else:
            (folder / placed(path)).parent.mkdir(exist_ok=True)
            shutil.copy(RESOURCES / "examples" / path, folder / placed(path))
            agents[name] = {"module": placed(path), "agent": agent}
    own = [f"mcp/elicitations/{name}.py" for name in STDIO]
    for path in ("workflows/short_story.md", *own):
        shutil.copy(RESOURCES / "examples" / path, folder)
    servers: dict[str, dict[str, Any]] = {name: {"transport": "http", "url": server} for name in SERVERS}
    asks = {"protocol_mode": "modern", "elicitation": {"mode": "auto-cancel"}}
    servers |= {name: {"command": str(PYTHON), "args": [f"{name}.py"], **asks} for name in STDIO}
    quiet = {"type": "none", "progress_display": False, "show_chat": False, "show_tools": False}
    config: dict[str, Any] = {
        "default_model": "passing",
        "logger": quiet,
        "mcp": {"servers": servers},
        "llm_retries": 0,
        "session_history": False,
        "tensorzero": {"base_url": url, "api_key": "none"},
    }
    config["model_references"] = {"system": {"fast": "haiku"}}
    (folder / "fast-agent.yaml").write_text(yaml.safe_dump(config), "utf-8")
    (folder / "agents.yaml").write_text(yaml.safe_dump({"name": "examples", "agents": agents}), "utf-8")
    overlays = folder / ".fast-agent" / "model-overlays"
    overlays.mkdir()
    for number, name in enumerate(MODELS):
        overlay = {
            "name": name,
            "provider": "generic",
            "model": f"scripted-{number}",
            "connection": {"base_url": url, "auth": "env", "api_key_env": "PATH"},
            "metadata": {"context_window": 100000, "max_output_tokens": 1000},
        }
        (overlays / f"{name}.yaml").write_text(yaml.safe_dump(overlay), "utf-8")


@pytest.fixture(scope="module")
def model() -> Generator[Model]:
    with scripted_model() as running:
        yield running


@pytest.fixture(scope="module")
def server() -> Generator[str]:
    """The address of the server that stands for all others."""
    port = free_port()
    process = Popen([PYTHON, STOCK / "serve.py", str(port)], stdout=DEVNULL, stderr=DEVNULL)
    try:
        wait_for_port(port)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def stock(model: Model, server: str, tmp_path_factory: pytest.TempPathFactory) -> Generator[tuple[Path, Popen[str]]]:
    """fast-agent itself, in the folder with the examples. It is imported while the worker starts."""
    folder = tmp_path_factory.mktemp("stock") / "examples"
    write_examples(folder, model.url, server)
    with Popen([PYTHON, STOCK / "run.py"], stdin=PIPE, stdout=PIPE, text=True) as process:
        yield folder, process
    assert process.returncode == 0


@pytest.fixture(scope="module")
def expected(model: Model, stock: tuple[Path, Popen[str]], stage: Stage) -> dict[str, tuple[str, list[str]]]:
    """What fast-agent itself sends to models, and its answers."""
    found: dict[str, tuple[str, list[str]]] = {}
    folder, process = stock
    wanted = [(str(folder), placed(path), agent, MESSAGE) for path, agent in PROGRAMS.values()]
    if process.stdin is not None and process.stdout is not None:
        process.stdin.write(json.dumps(wanted) + "\n")
        process.stdin.flush()
        for name in PROGRAMS:
            text = json.loads(process.stdout.readline())
            found[name] = text, shown(model.taken(), folder)
            process.stdin.write("\n")
            process.stdin.flush()
    return found


@pytest.fixture(scope="module")
async def stage(
    nats_url: str,
    model: Model,
    server: str,
    stock: tuple[Path, Popen[str]],
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncGenerator[Stage]:
    place = tmp_path_factory.mktemp("stage")
    folder, prices = place / "made", place / "prices.yaml"
    write_examples(folder, model.url, server)
    prices.write_text("currency: EUR\nmodels:\n  generic.*: {input: 500000, output: 1000000}\n", "utf-8")
    async with a_stage(nats_url, place, "examples", folder, prices=str(prices)) as running:
        for name in PROGRAMS:
            await until_hosted(running, name)
        yield running


def wait_for_port(port: int) -> None:
    """Wait until something listens there."""
    deadline = time.monotonic() + 30
    while True:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        assert time.monotonic() < deadline
        time.sleep(0.02)


def shown(requests: list[dict[str, Any]], folder: Path) -> list[str]:
    """What models were shown, sorted: parallel agents ask in any order.

    Tools are sorted too: where fast-agent runs it, a server's tools move to the end when it refreshes their list.
    """
    kept = [{key: each.get(key) for key in ("model", "messages", "tools", "response_format")} for each in requests]
    for each in kept:
        each["tools"] = sorted(each["tools"] or [], key=json.dumps)
    return sorted(json.dumps(each).replace(str(folder), "FOLDER") for each in kept)


@pytest.mark.parametrize("name", PROGRAMS)
async def test_an_example_does_what_it_does_where_fast_agent_runs_it(
    expected: dict[str, tuple[str, list[str]]], stage: Stage, model: Model, name: str
) -> None:
    answer = await stage.call(name, MESSAGE)
    text, requests = expected[name]
    assert shown(model.taken(), stage.folder) == requests
    assert answer.text == text
    assert answer.messages


def test_each_example_folder_is_a_team_as_it_is_and_its_programs_are_among_these() -> None:
    known: dict[Path, set[tuple[Path, str]]] = {}
    for path, agent in PROGRAMS.values():
        source = (RESOURCES / "examples" / path).resolve()
        folder = source.parent.parent if source.parent.name == "agent-cards" else source.parent
        known.setdefault(folder, set()).add((source, agent))
    for folder, sources in known.items():
        team = load_team(folder, {})
        found = {(it.card or it.module, it.member) for it in team.agents.values()}
        assert sources <= found
        assert {source for source, _ in found} == {source for source, _ in sources}
        assert team.left_out == ()
    programs = {path.resolve() for path in RESOURCES.rglob("*.py") if b"= FastAgent(" in path.read_bytes()}
    assert programs == {source for sources in known.values() for source, _ in sources if source.suffix == ".py"}


def test_the_files_afterwards_are_the_same(
    expected: dict[str, tuple[str, list[str]]], stage: Stage, stock: tuple[Path, Popen[str]]
) -> None:
    assert len(expected) == len(PROGRAMS)
    assert files_of(stage.folder) == files_of(stock[0])


def files_of(folder: Path) -> dict[str, bytes]:
    """All files below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


async def test_calls_of_models_have_the_price_of_the_table(stage: Stage) -> None:
    await stage.call("chaining", MESSAGE)
    tokens = {kind: await stage.counted("pallas_model_tokens_total", kind=kind) for kind in ("input", "output")}
    cost = await stage.counted("pallas_model_cost_total", currency="EUR")
    assert cost == pytest.approx(tokens["input"] / 2 + tokens["output"])
    assert cost > 0


async def test_calls_of_a_model_share_a_connection(stage: Stage, model: Model) -> None:
    before = len(model.connected)
    await stage.call("chaining", MESSAGE)
    assert len(model.taken()) > 1
    assert len(model.connected) <= before + 1
