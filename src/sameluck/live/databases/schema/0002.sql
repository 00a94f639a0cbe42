-- Disabled arms, the history of an experiment, counters, digests and the clocks of the processes that serve.

ALTER TABLE experiment ADD COLUMN fallback INTEGER;                     -- replaces a fallback arm that was disabled
ALTER TABLE experiment ADD COLUMN sticky INTEGER NOT NULL DEFAULT 1;    -- 0: returning units get the fallback arm
ALTER TABLE experiment ADD COLUMN fingerprints TEXT NOT NULL DEFAULT '{}';  -- JSON: identity of each policy's code

CREATE TABLE disabled_arm (
  experiment INTEGER NOT NULL REFERENCES experiment (id),
  arm        INTEGER NOT NULL CHECK (arm >= 0),
  PRIMARY KEY (experiment, arm)
) WITHOUT ROWID;

-- History: changes of experiments, who made them and why. Rows are only added, and outlive their experiment.
CREATE TABLE change (
  id         INTEGER PRIMARY KEY /*pg GENERATED ALWAYS AS IDENTITY */,
  experiment INTEGER NOT NULL,
  name       TEXT NOT NULL,      -- of the experiment
  at_us      BIGINT NOT NULL,
  what       TEXT NOT NULL,      -- started, paused, arm disabled, ...
  subject    TEXT NOT NULL,      -- the arm, the policy, ... or empty
  actor      TEXT NOT NULL,      -- who
  reason     TEXT NOT NULL
);
CREATE INDEX change_experiment ON change (experiment, id);
INSERT INTO change (experiment, name, at_us, what, subject, actor, reason)
SELECT id, name, started_us, 'started', '', '', '' FROM experiment ORDER BY id;

-- Counters, changed only under the lock of the replication's row, so that a status reads no settled entry.
ALTER TABLE replication ADD COLUMN imported INTEGER NOT NULL DEFAULT 0;   -- entries from a log
ALTER TABLE replication ADD COLUMN defaulted INTEGER NOT NULL DEFAULT 0;  -- entries with the default reward
ALTER TABLE replication ADD COLUMN voided INTEGER NOT NULL DEFAULT 0;     -- assignments that were voided
-- Sum of the hashes of the settled entries modulo 2^62, as of version `digested`.
ALTER TABLE replication ADD COLUMN digest BIGINT NOT NULL DEFAULT 0;
ALTER TABLE replication ADD COLUMN digested INTEGER NOT NULL DEFAULT -1;
UPDATE replication SET imported = e.imported, defaulted = e.defaulted
FROM (SELECT experiment, replication, SUM(CASE WHEN source = 'imported' THEN 1 ELSE 0 END) AS imported,
             SUM(CASE WHEN source = 'default' THEN 1 ELSE 0 END) AS defaulted
      FROM entry GROUP BY experiment, replication) AS e
WHERE replication.experiment = e.experiment AND replication.number = e.replication;
UPDATE replication SET voided = a.total
FROM (SELECT experiment, replication, COUNT(*) AS total FROM assignment WHERE voided_us IS NOT NULL
      GROUP BY experiment, replication) AS a
WHERE replication.experiment = a.experiment AND replication.number = a.replication;

-- How far the clock of each serving process is ahead of the database's time.
CREATE TABLE process_clock (
  process  TEXT NOT NULL PRIMARY KEY,
  ahead_us BIGINT NOT NULL,
  seen_us  BIGINT NOT NULL
) WITHOUT ROWID;
