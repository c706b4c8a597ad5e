"""What is kept: pipelines by name and hash, what is published of them, and which executions there were."""
