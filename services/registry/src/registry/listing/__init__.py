"""What is listed: one document for each agent, compiled from the tables and served in pages."""
