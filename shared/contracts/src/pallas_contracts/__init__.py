"""The messages between the parts of Pallas, with their subjects. Needs pydantic and nothing else."""
