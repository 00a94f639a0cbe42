"""Reporting: sentences, tables, figures and pages, made from results alone."""
