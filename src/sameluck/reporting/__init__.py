"""Presentation: tables, pages, figures and sentences."""
