"""Live experiments: the paper's design on real users, on a ledger in SQLite or PostgreSQL."""
