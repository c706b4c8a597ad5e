"""The commands, one file for each group. A command imports heavy libraries only when it runs, so `--help` is fast."""
