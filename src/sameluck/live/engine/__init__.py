"""Live engine: derives the entries that the policies of a replication need next. No clock, no database."""
