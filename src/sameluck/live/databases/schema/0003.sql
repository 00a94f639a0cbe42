-- Units that arrived, defaults that were taken back, deletion, erasure and the retention of the audit log.

-- Every unit that was assigned an entry or turned away while the experiment ran.
CREATE TABLE arrival (
  experiment    INTEGER NOT NULL REFERENCES experiment (id),
  unit          TEXT NOT NULL,             -- a keyed hash, as in assignment
  visits        BIGINT NOT NULL,           -- further ones are added about once a second
  away_until_us BIGINT NOT NULL DEFAULT 0, -- turned away until then
  PRIMARY KEY (experiment, unit)
) WITHOUT ROWID;

-- As before, and voided assignments are found by their entry and their unit too: when one of these is deleted.
DROP INDEX one_live_assignment_an_entry;
CREATE UNIQUE INDEX one_live_assignment_an_entry
  ON assignment (experiment, replication, owner, arm, position, (CASE WHEN voided_us IS NULL THEN '' ELSE id END));
DROP INDEX one_enrolment_a_unit;
CREATE UNIQUE INDEX one_enrolment_a_unit
  ON assignment (experiment, unit, (CASE WHEN voided_us IS NULL THEN '' ELSE id END));
-- As before, and rewards that were not applied are found by their assignment too.
DROP INDEX one_applied_reward;
CREATE UNIQUE INDEX one_applied_reward ON reward_event (assignment, (CASE WHEN outcome = 'applied' THEN 0 ELSE id END));

-- How often default rewards were taken back: what a process remembers of the replication is not true any more.
ALTER TABLE replication ADD COLUMN taken_back INTEGER NOT NULL DEFAULT 0;
-- The applied rewards that were pruned from the audit log: their number, and the sum of their digests modulo 2^62.
ALTER TABLE replication ADD COLUMN pruned INTEGER NOT NULL DEFAULT 0;
ALTER TABLE replication ADD COLUMN pruned_digest BIGINT NOT NULL DEFAULT 0;
