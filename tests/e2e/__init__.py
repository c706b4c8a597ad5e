"""The public surface of a whole stack. The shared stacks run while these tests do."""
