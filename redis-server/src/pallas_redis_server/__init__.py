"""Has the program `bin/redis-server`, which the build puts here."""
