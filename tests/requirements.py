"""What Pallas promises, one testable statement a row, and the marker that ties a test to the rows it shows.

Ids are stable. P rows are the MCP interface contract by section, A rows the one of authorisation, K rows the shape of
the system. A row without a test stands in `PENDING`, which has to be exactly those rows: giving a row its test means
taking it out of there.
"""

import pytest

REQUIREMENTS: dict[str, str] = {
    # State and history
    "P-0.1": "a call is executed by an agent made for it, which is gone after the answer",
    "P-0.2": "history rows that make no sense are left out with a warning, and the call goes on",
    "P-0.3": "the conversation id appears in logs and nowhere else",
    "P-0.4": "a restart of everything costs no conversation anything",
    # The registry
    "P-1.1": "the catalogue is a plain GET of the well-known path",
    "P-1.2": "the catalogue asks for no credential and no parameter",
    "P-1.3": "the catalogue is application/json",
    "P-1.4": "the catalogue is an object with one entry per agent in `servers`",
    "P-1.5": "a server's name is a reverse domain, a slash and its id",
    "P-1.6": "a title may be left out",
    "P-1.7": "a description is one line of 1 to 100 characters",
    "P-1.8": "a version is always there and is a semantic one",
    "P-1.9": "icons are a list of objects with `src` and sizes",
    "P-1.10": "an icon may be configured absolute or relative",
    "P-1.11": "an entry says where its agent speaks Streamable HTTP",
    "P-1.12": "every address in the catalogue answers MCP",
    "P-1.13": "capabilities give model, vision, context window and output limit, each of its type",
    "P-1.14": "capabilities are there when the model's are configured, and only then",
    "P-1.15": "the official metadata say status, time of the last change and that it is the latest",
    "P-1.16": "the catalogue's entries fit the published schema of servers",
    "P-1.17": "agents that come and go show at once",
    "P-1.18": "an agent may have a port of its own",
    "P-1.19": "the registry listens on a port of its own",
    # Turns, history, images
    "P-2.1": "nothing of one call is known to the next",
    "P-2.2": "`message` is a text and has to be there",
    "P-2.3": "`images` are base64 with a type, and count for this turn alone",
    "P-2.4": "images for a model that cannot see are an error, not silence",
    "P-2.5": "`history` is an optional list in order of time",
    "P-2.6": "history knows the roles user and assistant, no other",
    "P-2.7": "the agent has seen the history before the new message",
    "P-2.8": "images in the history are seen too",
    "P-2.9": "`conversation_id` is an optional text that finds its way into the logs",
    "P-2.10": "without history the agent sees the message and nothing else",
    "P-2.11": "conversations that run at once never see each other",
    "P-2.12": "history is never shortened on the way; too much of it is an error",
    "P-2.13": "the history prompt is listed and is always empty",
    "P-2.14": "a client that only knows `message` is served",
    # Health
    "P-3.1": "every agent lists `get_health`",
    "P-3.2": "`get_health` is described word for word as agreed",
    "P-3.3": "`get_health` takes an empty object and nothing more",
    "P-3.4": "health is one text block with a JSON object",
    "P-3.5": "a status is ok, degraded or error",
    "P-3.6": "a timestamp says when the check was made",
    "P-3.7": "what is not ok is explained",
    "P-3.8": "asking for health never runs a model",
    "P-3.9": "health is answered within a second",
    "P-3.10": "a probe of a downstream server gives up after 3 s",
    "P-3.11": "a probe is an MCP initialize with the server's headers and both content types accepted",
    "P-3.12": "a probe ends the session it opened",
    "P-3.13": "an HTTP error, silence or a refusal is a server that cannot be reached",
    "P-3.14": "everything reachable and a healthy provider are ok",
    "P-3.15": "a server that cannot be reached or a failed preflight is degraded, and named",
    "P-3.16": "an agent that could not start is an error, and the reason is given",
    "P-3.17": "slow alone is degraded",
    "P-3.18": "`get_health` may be called without arguments",
    # Discovery. Of section 4 only what the catalogue has to offer is ours. Left out: how Daedalus stores instances,
    # shows agents, attaches and detaches them (4.2 to 4.5, 4.12), polls, caches and exports their health (4.6 to 4.9)
    # and lets its chat depend on it (4.10, 4.11).
    "P-4.1": "a base address with the well-known path appended is a catalogue, for all teams and for one",
    # Progress
    "P-5.1": "progress is sent to callers that asked for it, and to no others",
    "P-5.2": "progress travels on the stream of the call it belongs to",
    "P-5.3": "the caller's progress token comes back as it was, text or number",
    "P-5.4": "progress never goes backwards within a task",
    "P-5.5": "there is no total while a loop runs, and a total of 1 at an end",
    "P-5.6": "a tool that starts is said as `{server}/{tool}: started`, at 0",
    "P-5.7": "a tool that ends is said as `{server}/{tool}: completed`, at 1 of 1",
    "P-5.8": "a tool that fails is said as `{server}/{tool}: failed`",
    "P-5.9": "each turn of the model is said as `{agent} step N (llm)`",
    "P-5.10": "each step with tools is said as `{agent} step N (tool)`",
    "P-5.11": "start and end are said of every downstream call",
    "P-5.12": "steps are said by every agent unless told otherwise",
    "P-5.13": "a notification that cannot be delivered does not disturb the turn",
    "P-5.14": "what the model writes on the way is no progress; it is in the result",
    "P-5.15": "calls in parallel interleave, each under its own name",
    "P-5.16": "the result of a call has text in it",
    "P-5.17": "our own client asks for progress with every call of an agent but `get_health`",
    "P-5.18": "our own client replaces its status line",
    "P-5.19": "our own client shows that it waits while there is no total",
    "P-5.20": "our own client clears its status line when the result is there",
    # Protocol
    "P-6.1": "tools/list tells all that an agent can do",
    "P-6.2": "agents are reached over MCP and nothing else",
    # The shape of the system. Left out because other parts of Pallas bring them: resolution of bearers and teams
    # (K-pkg-3, K-top-3, K-top-4, K-shape-4, K-shape-5), deployment (K-top-7, K-top-8, K-use-2), dashboards (K-use-3)
    # and replay (K-use-4).
    "K-kind-1": "services speak to each other in events over JetStream",
    "K-pkg-1": "bus, protocol and contracts rest on nats-py, mcp and pydantic",
    "K-pkg-2": "HTTP is served by FastAPI and uvicorn",
    "K-pkg-4": "every service can be traced with OpenTelemetry",
    "K-pkg-5": "tests run in pytest, on containers where there are no binaries",
    "K-top-1": "there is a service `registry`",
    "K-top-2": "there is a service `agent-gateway`",
    "K-top-5": "there is a service `health-monitor`",
    "K-top-6": "what services share is below `shared`",
    "K-top-9": "tests are below `tests`",
    "K-shape-1": "the gateway ends MCP and publishes requests for turns",
    "K-shape-2": "any worker executes any turn, and holds nothing between turns",
    "K-shape-3": "workers stream what happens back through the log",
    "K-shape-6": "the health monitor publishes what its probes find",
    "K-shape-7": "the registry shows what the probes found",
    "K-use-1": "an MCP host uses it with nothing but MCP",
    # Who may read what. Left out: what Daedalus does, and one key for
    # both kinds of JWT: Daedalus, which has the keys of per-turn tokens, could sign JWTs of teams.
    "A-3.2.3": "the JWT of a team is valid for ten years",
    "A-4.1.8": "a team has the id that Daedalus gives it",
    "A-4.1.10": "a team is attached to a workspace once",
    "A-5.2.1": "the JWT of a team claims iss, aud, sub, typ, iat, exp and jti",
    "A-5.2.2": "its sub is `team:` and the team's id, its typ is `team`",
    "A-5.2.3": "it claims no workspace and no library",
    "A-7.1.1": "creating a team answers 201 with id, name and JWT",
    "A-7.1.2": "a team's JWT is shown once",
    "A-7.1.3": "creating a team that is there answers it without a JWT",
    "A-7.2.1": "a deleted team stays, inactive",
    "A-7.3.1": "workspaces of a team are replaced, as often as one likes",
    "A-7.3.2": "replacing workspaces answers 200 with them",
    "A-7.3.3": "workspaces that nobody knows are accepted",
    "A-7.4.1": "rotating answers another JWT with another jti",
    "A-7.5.1": "a team is shown with id, name, active, active_jti and workspace_ids, never with its JWT",
    "A-8.1.3": "that a team was provisioned is logged as pallas_team_provisioned",
    "A-13.2.1": "a team of no workspaces is paused: it reads nothing",
    "A-13.2.2": "a deleted team is not revived by its id",
    "A-13.3.1": "of an opaque token only the SHA-256 is stored",
    "A-13.3.2": "the secrets of signing keys have 256 bits and are stored encrypted",
    "A-13.4.2": "what happens to teams is logged under the contract's names with the caller's request id",
    "A-14.1.6": "assignments are replaced, not united, and may be repeated",
}
"""What is promised, by id."""

PENDING: frozenset[str] = frozenset()
"""Rows that no test shows yet. It may only shrink."""


def requirement(*ids: str) -> pytest.MarkDecorator:
    """Mark a test (or, as `pytestmark`, a module) as showing these rows."""
    return pytest.mark.requirement(*ids)
