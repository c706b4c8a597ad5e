"""`python -m tests.chaos`: a scripted storm over real processes, and a checker of what it leaves behind."""
