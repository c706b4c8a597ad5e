"""Where the `pallas` program begins: Ctrl-C ends it without a traceback, also while its modules are imported."""

INTERRUPTED = 130


def app() -> None:
    """Run the command that the user typed."""
    try:
        from pallas_cli.main import app as run

        run()
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None
