"""Changes by operators: status, arms, windows, policies, removal, and their history."""
