"""How far one log stream goes, what many agents cost, and what a log in shards would bring."""
