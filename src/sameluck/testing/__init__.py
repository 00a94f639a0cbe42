"""Tools for tests of stores and policies."""
