-- Arrived units, default rewards taken back, deletion, erasure and retention of the audit log.

-- Every unit that was enrolled or turned away while the experiment ran.
CREATE TABLE arrival (
  experiment    INTEGER NOT NULL REFERENCES experiment (id),
  unit          TEXT NOT NULL,             -- a keyed hash, as in assignment
  visits        BIGINT NOT NULL,           -- later visits are added about once a second
  away_until_us BIGINT NOT NULL DEFAULT 0, -- turned away until then
  PRIMARY KEY (experiment, unit)
) WITHOUT ROWID;

-- As before; voided assignments are now found by entry and by unit too, for deletion.
DROP INDEX one_live_assignment_an_entry;
CREATE UNIQUE INDEX one_live_assignment_an_entry
  ON assignment (experiment, replication, owner, arm, position, (CASE WHEN voided_us IS NULL THEN '' ELSE id END));
DROP INDEX one_enrolment_a_unit;
CREATE UNIQUE INDEX one_enrolment_a_unit
  ON assignment (experiment, unit, (CASE WHEN voided_us IS NULL THEN '' ELSE id END));
-- As before; rewards that were not applied are now found by assignment too.
DROP INDEX one_applied_reward;
CREATE UNIQUE INDEX one_applied_reward ON reward_event (assignment, (CASE WHEN outcome = 'applied' THEN 0 ELSE id END));

-- How often default rewards were taken back: a change invalidates a process's state of the replication.
ALTER TABLE replication ADD COLUMN taken_back INTEGER NOT NULL DEFAULT 0;
-- Applied rewards pruned from the audit log: their number and the sum of their digests modulo 2^62.
ALTER TABLE replication ADD COLUMN pruned INTEGER NOT NULL DEFAULT 0;
ALTER TABLE replication ADD COLUMN pruned_digest BIGINT NOT NULL DEFAULT 0;
-- Versions of policies. `experiment.fingerprints` has for each policy: its fingerprint, the owner of its own stacks,
-- whether it was added or removed, whether it takes only rewards 0 and 1.

ALTER TABLE experiment ADD COLUMN policy_revision INTEGER NOT NULL DEFAULT 0;   -- of its policies and their code
ALTER TABLE replication ADD COLUMN policy_revision INTEGER NOT NULL DEFAULT 0;  -- the same; read with the row's lock
-- Entries settled by processes that do not run the policies; one that does derives what follows from them.
ALTER TABLE replication ADD COLUMN behind INTEGER NOT NULL DEFAULT 0;
CREATE INDEX replication_behind ON replication (experiment, number) WHERE behind > 0;
-- 1: no policy needs it any more (one was removed, or its code replaced): it is not offered, and need not be read.
ALTER TABLE entry ADD COLUMN released INTEGER NOT NULL DEFAULT 0;
DROP INDEX entry_wanted;
CREATE INDEX entry_wanted ON entry (experiment, state, replication, owner, arm, position, released) WHERE state = 'wanted';
DROP INDEX entry_due;
CREATE INDEX entry_due ON entry (experiment, state, due_us, released) WHERE state = 'assigned';
