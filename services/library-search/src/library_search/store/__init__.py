"""What is in Postgres: libraries, documents, chunks, and the queries."""
