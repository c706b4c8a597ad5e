"""Look-ups of who may read what, for auth-resolver and for the cache."""
