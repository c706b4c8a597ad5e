"""Recorded messages of all streams: followed and replayed."""
