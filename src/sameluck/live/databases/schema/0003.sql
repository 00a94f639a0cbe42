-- Versions of policies. `experiment.fingerprints` has for each policy: its fingerprint, the owner of its own stacks,
-- whether it was added or removed, whether it takes only rewards 0 and 1.

ALTER TABLE experiment ADD COLUMN revision INTEGER NOT NULL DEFAULT 0;   -- of its policies and their code
ALTER TABLE replication ADD COLUMN revision INTEGER NOT NULL DEFAULT 0;  -- the same; read with the replication's lock
-- Entries settled by processes that do not run the policies; one that does derives what follows from them.
ALTER TABLE replication ADD COLUMN behind INTEGER NOT NULL DEFAULT 0;
CREATE INDEX replication_behind ON replication (experiment, number) WHERE behind > 0;
-- 1: no policy needs it any more (one was removed, or its code replaced): it is not offered, and need not be read.
ALTER TABLE entry ADD COLUMN released INTEGER NOT NULL DEFAULT 0;
DROP INDEX entry_wanted;
CREATE INDEX entry_wanted ON entry (experiment, state, replication, owner, arm, position, released) WHERE state = 'wanted';
DROP INDEX entry_due;
CREATE INDEX entry_due ON entry (experiment, state, due_us, released) WHERE state = 'assigned';
