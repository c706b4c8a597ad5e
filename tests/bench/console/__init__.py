"""The console: pages in a real browser, chats, and what its service does with many agents and instances."""
