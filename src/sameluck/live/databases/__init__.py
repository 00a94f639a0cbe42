"""Databases: SQLite and PostgreSQL."""
