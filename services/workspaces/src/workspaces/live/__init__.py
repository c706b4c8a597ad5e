"""What browsers and other replicas are told at once."""
