"""The servers of the broker and the leaders of streams."""
