"""What models cost, and budgets."""
