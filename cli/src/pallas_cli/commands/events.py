"""`pallas events`: the messages of all streams, as they are stored and as they were recorded."""

from enum import StrEnum
from functools import partial
from typing import Annotated

import typer

from pallas_cli.broker import DEFAULT_DATA, DEFAULT_NATS, AsJson, Data, NatsUrl, run_on

app = typer.Typer(no_args_is_help=True, help="The recorded messages of all streams.")

Filter = Annotated[
    str,
    typer.Option("--subject", metavar="FILTER", help="Only subjects like this; `pallas.v1.` may be left out."),
]


class Speed(StrEnum):
    """How fast recorded messages are published again."""

    ORIGINAL = "original"
    FAST = "fast"


@app.command()
def tail(
    subject: Filter = ">",
    since: Annotated[str | None, typer.Option(help="Begin with what was stored from then on: 30m, 2h, a time.")] = None,
    nats: NatsUrl = DEFAULT_NATS,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Print every message of every stream as it is stored, until Ctrl-C. With --json its body too, as JSON."""
    from pallas_cli.events.tail import tail as follow

    run_on(nats, data, partial(follow, subject=subject, since=since, as_json=as_json))


@app.command()
def replay(
    since: Annotated[str, typer.Option(help="From when on: a span back from now (30m, 2h) or an ISO 8601 time.")],
    until: Annotated[str | None, typer.Option(help="Up to when; otherwise until now.")] = None,
    subject: Filter = ">",
    speed: Annotated[Speed, typer.Option(help="With the original spacing, or at once.")] = Speed.ORIGINAL,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="SUBJECT",
            help="One subject, or a prefix ending in `.>`. [default: pallas.v1.replayed.>]",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Publish nothing; only count.")] = False,
    nats: NatsUrl = DEFAULT_NATS,
    data: Data = DEFAULT_DATA,
) -> None:
    """Publish recorded messages again, to a subject of their own, for a dashboard or consumer that missed them.

    The body is as it was. The headers Pallas-Stream, Pallas-Subject, Pallas-Position and Pallas-Time say what it was.
    """
    from pallas_cli.events.replay import replay as publish

    options = {"since": since, "until": until, "subject": subject, "fast": speed is Speed.FAST, "to": to}
    run_on(nats, data, partial(publish, **options, dry_run=dry_run))
