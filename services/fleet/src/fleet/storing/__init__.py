"""What Coder does not know: the task that an agent has, and the tasks that it had. In buckets of the broker."""
