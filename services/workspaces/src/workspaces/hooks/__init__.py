"""What Mnemosyne is told (auth contract, section 8): durably, and about each instance one thing after the other."""
