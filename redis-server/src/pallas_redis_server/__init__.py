"""Has the programs `bin/redis-server` and `bin/redis-cli`, which the build puts here."""
