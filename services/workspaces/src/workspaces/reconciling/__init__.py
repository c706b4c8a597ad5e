"""Keeps Mnemosyne as our tables say (auth contract, section 8): compares, and puts what differs."""
