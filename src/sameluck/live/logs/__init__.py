"""Reading a production log of one policy: the arm and the reward of each user, in order; and exporting a ledger.

`rows.read_log` takes a CSV, JSON Lines or Parquet file, a pandas or polars DataFrame, or records (mappings). It keeps
the rows that can be used and lists a `Problem` for every other; `refuse_problems` raises `Invalid` for them.
"""
