"""Files into text, and text into chunks."""
