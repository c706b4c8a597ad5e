"""What `pallas up` prints when the stack is ready: addresses and next steps."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from rich.console import Console
from rich.table import Table

from pallas_cli.broker import DEFAULT_DATA
from pallas_cli.contexts import active
from pallas_cli.stack.plan import Plan
from pallas_cli.typed import typed

_PROGRAM = Path("docs/examples/headlines.cst")
"""In a checkout; an installed `pallas` has no examples."""


def show_stack(console: Console, plan: Plan, logs: Path) -> None:
    """Print the table of addresses."""
    table = Table(title="Pallas", title_justify="left", show_header=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, address in _rows(plan, logs):
        table.add_row(name, address)
    console.print()
    console.print(table)
    for told in (told for team in plan.teams for told in team.told):
        console.print(told, style="yellow", markup=False, highlight=False, soft_wrap=True)


def show_next_steps(console: Console, plan: Plan) -> None:
    """Print a few commands to try, on one line each so that they can be copied."""
    agents = [(team.name, agent) for team in plan.teams for agent in team.agents]
    first = agents[:1] or [("", "AGENT")]
    alone = sum(agent == first[0][1] for _, agent in agents) < 2
    agent = first[0][1] if alone else "/".join(first[0])
    here = _here(plan.data)
    steps = [
        ("talk to an agent", f"{typed()} chat {agent}{here}"),
        ("see the catalogue", f"curl -s {plan.url('registry')}/.well-known/mcp/server.json"),
        ("check a team folder", f"{typed()} agents validate {plan.teams[0].folder if plan.teams else 'DIR'}"),
    ]
    if plan.demo_agents:
        call = f"""news_fetcher fetch_recent_articles '{{"symbol": "AAPL"}}'{here}"""
        steps.append(("call a data agent", f"{typed()} rpc {call}"))
    if plan.demo_agents and _PROGRAM.exists():
        run = f"{_PROGRAM} --input symbol=AAPL{here}"
        steps.append(("run a pipeline", f"{typed()} pipelines run {run}"))
    steps.append(("list coding agents", f"{typed()} call{here} fleet/fleet list_agents"))
    if plan.accounts is not None:
        steps.append(("list teams and their workspaces", f"{typed()} teams list{here}"))
    console.print("\nTry next, in another terminal:", style="bold")
    for what, command in steps:
        console.print(f"  {what}:", style="dim")
        console.print(f"    {command}", markup=False, highlight=False, soft_wrap=True)


def show_console(console: Console, url: str, link: str | None, data: Path) -> None:
    """Print the address of the console, with a link that logs in once."""
    console.print("\nConsole, in a browser:", style="bold")
    console.print(f"  {link or url}", markup=False, highlight=False, soft_wrap=True)
    another = f"  This link logs in once. Another one: {typed()} console{_here(data)}"
    if link is not None:
        console.print(another, style="dim", markup=False, highlight=False, soft_wrap=True)


def _here(data: Path) -> str:
    """The option by which commands find this stack; none if they find it by themselves from this folder."""
    found = active() is None and data.absolute() == DEFAULT_DATA.absolute()
    return "" if found else f" --data {data}"


def show_end(console: Console) -> None:
    """Print how to stop."""
    console.print("\nPress Ctrl-C to stop everything.", style="dim")


def without_credentials(url: str) -> str:
    """Return `url` (or several, separated by commas) without user names and passwords."""
    return ",".join(_host_only(part.strip()) for part in url.split(","))


def _host_only(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _rows(plan: Plan, logs: Path) -> Iterator[tuple[str, str]]:
    auth = plan.accounts is not None
    yield "registry", f"{plan.url('registry')}/.well-known/mcp/server.json"
    for url in plan.gateway_urls:
        yield "gateway", url
    for team in plan.teams:
        for agent in team.agents:
            yield f"agent {team.name}/{agent}", f"{plan.gateway_urls[0]}/teams/{team.name}/mcp/{agent}"
    if plan.demo:
        yield "demo tools", f"{plan.url('demo-tools')}/mcp"
    if not auth:
        yield "console", "none: it needs the auth services"
    yield "pipelines", plan.url("pipelines")
    yield "data-pool", plan.url("data-pool")
    yield "fleet", f"{plan.gateway_urls[0]}/teams/fleet/mcp/fleet"
    what = "" if plan.external.coder else " (stand-in)" if plan.local is None else " (local fleet)"
    yield "coder", without_credentials(plan.coder_url) + what
    if auth:
        yield "team-lifecycle", plan.url("team-lifecycle")
        yield "library-search", f"{plan.url('library-search')}/mcp"
        yield "console", plan.url("workspaces")
    yield "nats", without_credentials(plan.nats_url)
    if plan.nats is not None:
        yield "nats monitoring", plan.nats.monitor_url
    for name, url in (("redis", plan.redis_url), ("postgres", plan.postgres_url)):
        if url is not None:
            yield name, without_credentials(url)
    yield "data", str(plan.data)
    yield "logs", str(logs)
