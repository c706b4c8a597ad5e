"""What each tool does with its arguments, and how documents and libraries get here."""
