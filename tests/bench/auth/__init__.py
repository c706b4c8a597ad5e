"""What authorisation costs: to resolve a bearer, to change what it may read, and to search what it may."""
