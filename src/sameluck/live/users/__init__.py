"""Calls for users: assignments, exposures, rewards, expiry."""
