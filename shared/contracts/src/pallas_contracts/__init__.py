"""What is said between the parts of Pallas. Needs pydantic and nothing else."""
