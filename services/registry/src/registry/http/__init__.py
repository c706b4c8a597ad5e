"""The routes, for any web page to read."""
