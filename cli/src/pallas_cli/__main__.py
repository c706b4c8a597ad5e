"""`python -m pallas_cli`: the command where its script cannot be named, as in its image."""

from pallas_cli.start import app

app()
