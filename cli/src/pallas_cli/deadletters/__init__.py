"""Dead letters: listed, shown, retried and removed."""
