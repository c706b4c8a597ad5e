"""The terms that the demo's `look_up` tool knows, in lower case."""

GLOSSARY: dict[str, str] = {
    "agent": "Something with a name that answers calls of its tools.",
    "attempt": "One execution of a turn. A turn whose worker is lost may be attempted again.",
    "definition": "What can be called of an agent: its tools, prompts and resources with their schemas.",
    "gateway": "The service that terminates MCP and turns every call into a turn.",
    "outcome": "How a turn ended. The first one counts.",
    "slot": "Room for one turn in a worker.",
    "turn": "One call of one tool of one agent, recorded in the log from request to outcome.",
    "worker": "The service that executes turns; it holds nothing between them.",
}
