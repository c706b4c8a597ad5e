"""The commands, one file for each group. They import heavy libraries only when they run, so that `--help` is quick."""
