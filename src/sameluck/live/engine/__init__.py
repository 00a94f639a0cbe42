"""The live engine: which entries the policies of a replication need next. No clock, no database."""
