"""The tables of the conformance suites at the end of the run. They come with the reports of tests, from any process."""

import pytest

PROPERTY = "conformance"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show the tables."""
    reports = [*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")]
    found = [value for report in reports for name, value in getattr(report, "user_properties", ()) if name == PROPERTY]
    if found:
        terminalreporter.section("MCP conformance")
        terminalreporter.write_line("\n".join(map(str, found)))
