"""The results of a storm as markdown and JSON."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

from tests.bench.figures import percentile
from tests.chaos.run import Result


def facts(result: Result) -> dict[str, Any]:
    """What is written down of a storm."""
    outcomes = Counter(
        f"{at.body.status}{f' ({at.body.code})' if at.body.status == 'failed' else ''}"
        for turn in result.evidence.turns.values()
        for at in turn.outcomes
    )
    attempts = Counter(len(turn.attempts) for turn in result.evidence.turns.values() if turn.attempts)
    return {
        "seed": result.options.seed,
        "calls": result.options.turns,
        "seconds": round(result.seconds, 1),
        "accepted": len(result.evidence.accepted),
        "blows": dict(sorted(Counter(f"{it.blow.target} {it.blow.manner}" for it in result.fallen).items())),
        "callers": dict(sorted(Counter(f"{it.kind}: {it.ended}" for it in result.evidence.callers).items())),
        "outcomes": dict(sorted(outcomes.items())),
        "attempts": {str(number): count for number, count in sorted(attempts.items())},
        "programs": len(result.evidence.programs),
        "nodes": sum(
            len(result.evidence.turns_of(node, execution))
            for _, program, execution in result.evidence.executions
            for node in program.nodes
        ),
        "effects": len(result.evidence.effects),
        "counted_calls": len(result.evidence.calls),
        "counted_calls_again": len(result.evidence.calls) - len({it.key for it in result.evidence.calls}),
        "recovery": {
            kind: {"times": len(found), "p50_s": percentile(found, 0.5), "p99_s": percentile(found, 0.99)}
            for kind, found in sorted(result.recoveries.items())
            if found
        },
        "violations": [f"{it.rule}: {it.what}" for it in result.violations],
    }


def markdown(it: dict[str, Any]) -> str:
    """The tables."""
    found = it["violations"]
    sections = [
        f"# Storm, seed {it['seed']}\n\n{it['calls']} calls at 64 in flight over two gateways, three workers, two of "
        f"fast-agent, two pools and two replicas of pipelines, {it['accepted']} turns witnessed as accepted, "
        f"{it['effects']} effects, {it['seconds']:.0f} s. "
        f"{it['programs']} of the calls are programs, whose executions made {it['nodes']} turns. "
        f"{it['counted_calls']} calls of a model and of a tool without effects were counted at their ends; "
        f"{it['counted_calls_again']} of them repeat a call, whose answer had not been stored. "
        f"**Violations: {len(found)}.**",
        _counted("Blows", it["blows"]),
        _counted("Turns by outcome", it["outcomes"]),
        _counted("Turns by attempts", it["attempts"]),
        _counted("Callers by how their call ended", it["callers"]),
        "## How long turns stood still\n\n"
        "What executes turns: from the blow until its turn is claimed again or ends; a turn whose tool had started "
        "ends only when the presence of its worker has expired. The broker: from its return until something is "
        "stored.\n\n"
        "| blow | times | p50 s | p99 s |\n|---|---:|---:|---:|\n"
        + "\n".join(
            f"| {kind} | {cell['times']} | {cell['p50_s']:.2f} | {cell['p99_s']:.2f} |"
            for kind, cell in it["recovery"].items()
        ),
    ]
    if found:
        sections.append("## Violations\n\n" + "\n".join(f"- {line}" for line in found))
    return "\n\n".join(sections) + "\n"


def _counted(title: str, counts: dict[str, int]) -> str:
    rows = "\n".join(f"| {what} | {count} |" for what, count in counts.items())
    return f"## {title}\n\n| | count |\n|---|---:|\n{rows}"


def write(results: dict[str, Any], folder: Path) -> Path:
    """Write `chaos.json` and `chaos.md`; returns the path of the latter."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "chaos.json").write_text(json.dumps(results, indent=1) + "\n", "utf-8")
    path = folder / "chaos.md"
    path.write_text(markdown(results), "utf-8")
    return path
