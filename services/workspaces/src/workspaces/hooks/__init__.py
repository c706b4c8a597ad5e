"""What Mnemosyne is told (auth contract, section 8): durable, one at a time for each instance, and by what holds now."""
