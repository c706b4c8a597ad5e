"""Who may send requests: sessions, one-time links and the account of the command line."""
