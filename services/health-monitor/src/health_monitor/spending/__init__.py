"""What models have cost, folded from the log into the bucket `spending`."""
