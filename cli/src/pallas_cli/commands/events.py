"""`pallas events`: follow and replay the messages of all streams."""

from enum import StrEnum
from functools import partial
from typing import Annotated

import typer

from pallas_cli.broker import DEFAULT_DATA, AsJson, Data, NatsUrl, run_on
from pallas_cli.moments import is_moment

app = typer.Typer(no_args_is_help=True, help="The recorded messages of all streams.")

Filter = Annotated[
    str,
    typer.Option(
        "--subject", metavar="FILTER", help="Only subjects that match this filter; `pallas.v1.` may be omitted."
    ),
]


class Speed(StrEnum):
    """How fast recorded messages are replayed."""

    ORIGINAL = "original"
    FAST = "fast"


@app.command()
def tail(
    subject: Filter = ">",
    since: Annotated[
        str | None,
        typer.Option(help="Start with messages stored since then: 30m, 2h or an ISO 8601 time.", callback=is_moment),
    ] = None,
    nats: NatsUrl = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Print each message of every stream when it is stored, until Ctrl-C. With --json, print its body too."""
    from pallas_cli.events.tail import tail as follow

    run_on(nats, data, partial(follow, subject=subject, since=since, as_json=as_json), doing=None)


@app.command()
def replay(
    since: Annotated[
        str,
        typer.Option(
            help="Start of the period: a time span before now (30m, 2h) or an ISO 8601 time.", callback=is_moment
        ),
    ],
    until: Annotated[str | None, typer.Option(help="End of the period. [default: now]", callback=is_moment)] = None,
    subject: Filter = ">",
    speed: Annotated[
        Speed, typer.Option(help="Keep the original intervals, or publish without pauses.")
    ] = Speed.ORIGINAL,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="SUBJECT",
            help="Target: one subject, or a prefix that ends in `.>`. [default: pallas.v1.replayed.>]",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count the messages; publish nothing.")] = False,
    nats: NatsUrl = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Publish recorded messages again on a separate subject. It is for a dashboard or consumer that missed them.

    The body is unchanged. The headers Pallas-Stream, Pallas-Subject, Pallas-Position and Pallas-Time name the original.
    """
    from pallas_cli.events.replay import replay as publish

    options = {"since": since, "until": until, "subject": subject, "fast": speed is Speed.FAST, "to": to}
    run_on(nats, data, partial(publish, **options, dry_run=dry_run, as_json=as_json), doing=None)
