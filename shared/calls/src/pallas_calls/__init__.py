"""Makes a turn of each call and follows it to its end."""
