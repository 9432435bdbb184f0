"""The databases: SQLite, PostgreSQL, and either opened for reading alone."""
