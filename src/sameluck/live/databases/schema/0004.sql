-- 1: the unit has returned and was told this assignment again, maybe by another process than the one that made it.
ALTER TABLE assignment ADD COLUMN told INTEGER NOT NULL DEFAULT 0;
