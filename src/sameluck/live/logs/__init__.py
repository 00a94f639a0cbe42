"""Importing a production log of one policy, which `sameluck.logs` reads; and exporting a ledger."""
