"""State of an experiment: its definition, its ledger, its open replications, and their verification."""
