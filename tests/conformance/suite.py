"""A run of an official suite: its scenarios, their results, and the expected failures.

The suite decides by itself whether its run is good (exit code); everything else here is to show it and to doubt it.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from tests.conformance.node import HERE, node

_STARTED = re.compile(r"-\d{4}-\d\d-\d\dT[\dZ-]+$")
_TRIES = 3
"""Of a scenario: some wait for a second and a half at most, which a busy machine may need by itself."""
_LISTED = re.compile(r"^  - (\S+)", re.MULTILINE)


@dataclass(frozen=True)
class Suite:
    """A version of the suite at a revision of the protocol."""

    package: str
    revision: str

    @property
    def expected(self) -> Path:
        """The file of scenarios that are expected to fail: the suite's own where it has one, else the revision's."""
        own = HERE / "expected" / f"{self.revision}.{self.package}.yaml"
        return own if own.exists() else HERE / "expected" / f"{self.revision}.yaml"

    def run(self, url: str, results: Path) -> "Run":
        """Try all scenarios, those that are still drafts included, on the server at `url`."""
        run = self._run(url, results / "all", "--suite", "all", "--expected-failures", str(self.expected))
        for again in range(_TRIES - 1):
            if run.failed - self.expected_failures():
                run = self._repeated(run, url, results / f"{again}")
        return run

    def _repeated(self, run: "Run", url: str, results: Path) -> "Run":
        """The run with the scenarios that should not have failed tried again."""
        names = sorted(run.failed - self.expected_failures())
        repeated = [self._run(url, results / name, "--scenario", name) for name in names]
        scenarios = run.scenarios | {name: found for one in repeated for name, found in one.scenarios.items()}
        return Run(self, max(one.exit_code for one in repeated), run.output, scenarios)

    def _run(self, url: str, results: Path, *which: str) -> "Run":
        done = node(
            f"{self.package}/dist/index.js",
            "server",
            *("--url", url, "--spec-version", self.revision, "--output-dir", str(results), *which),
        )
        scenarios = {_STARTED.sub("", found.parent.name): found for found in results.glob("*/checks.json")}
        tried = {name.removeprefix("server-"): _scenario(found) for name, found in sorted(scenarios.items())}
        return Run(self, done.returncode, done.stdout, tried)

    def expected_failures(self) -> set[str]:
        """The scenarios of the file."""
        return set(yaml.safe_load(self.expected.read_text("utf-8"))["server"])


@dataclass(frozen=True)
class Scenario:
    """The results of the checks of one scenario."""

    passed: int
    failed: tuple[str, ...]
    warned: tuple[str, ...]


@dataclass(frozen=True)
class Run:
    """All scenarios by name. `output` is the output of the suite."""

    suite: Suite
    exit_code: int
    output: str
    scenarios: dict[str, Scenario]

    @property
    def failed(self) -> set[str]:
        """Scenarios with a check that failed or warned: the suite wants both to be expected."""
        return {name for name, scenario in self.scenarios.items() if scenario.failed or scenario.warned}

    def table(self) -> list[str]:
        """A line for every scenario, with its failed checks below."""
        good, tried = len(self.scenarios) - len(self.failed), len(self.scenarios)
        lines = [f"{self.suite.package}, revision {self.suite.revision}: {good} of {tried} scenarios pass"]
        for name, scenario in self.scenarios.items():
            lines.append(f"  {self._verdict(name):<9}{name} ({scenario.passed} checks)")
            lines += [f"           {said}" for said in scenario.failed]
            lines += [f"           warning: {said}" for said in scenario.warned]
        return lines

    def _verdict(self, name: str) -> str:
        if name not in self.failed:
            return "ok"
        return "expected" if name in self.suite.expected_failures() else "FAILED"


def _scenario(found: Path) -> Scenario:
    checks: list[dict[str, Any]] = json.loads(found.read_text("utf-8"))

    def checks_with(status: str) -> tuple[str, ...]:
        return tuple(f"{it['id']}: {it.get('errorMessage')}" for it in checks if it["status"] == status)

    return Scenario(sum(it["status"] == "SUCCESS" for it in checks), checks_with("FAILURE"), checks_with("WARNING"))


def required(revision: str) -> set[str]:
    """The server scenarios that a revision requires, frozen at its release."""
    listed = node("conformance-0.2/dist/index.js", "list", "--requirements", revision)
    servers = listed.stdout.partition("Server scenarios")[2].partition("Client scenarios")[0]
    return set(_LISTED.findall(servers))
