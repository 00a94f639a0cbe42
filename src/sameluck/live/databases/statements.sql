-- Statements of live experiments, by name, for both databases. PostgreSQL also reads the text of comments that begin with
-- "pg"; for SQLite, which has one writer and needs no row locks, they stay comments. PostgreSQL runs a statement "for
-- lists" once for several rows of parameters; in such a statement VALUES and the WHERE of an UPDATE begin a line.
--
-- The column arm of the tables entry, assignment and disabled_arm holds a cell; `Engine.arm_of` returns its arm.
--
-- Lock order in PostgreSQL. A transaction waits for locks only in this order, so that no two wait for each other:
--   1. advisory locks of units, by hash (lock): the calls of a unit run one after the other in all processes;
--   2. rows of replication, by number, each with the entry and the assignment concerned (lock_assignment and others);
--   3. the row of experiment (lock_experiment): a reward that completes a replication locks it last.
-- Statements that need a lock out of this order do not wait for it:
--   * assign passes over entries that another call is about to assign (SKIP LOCKED);
--   * tell leaves out an assignment that a reward has locked (SKIP LOCKED). A list of units holds rows that the reward may
--     wait for, so that a wait would be a deadlock between assign_many and reward;
--   * try_lock leaves out units that another call has locked: a call voids assignments and counts visits of units other
--     than its own, whose locks it did not take in order.

-- name: names
SELECT name FROM experiment ORDER BY id

-- name: experiment
SELECT id, name, definition, options, status, reason, salt, streams, started_us, fallback, sticky, resumes_as,
       fingerprints, policy_revision
FROM experiment
WHERE name = :name

-- name: experiment_now
SELECT id, name, definition, options, status, reason, salt, streams, started_us, fallback, sticky, resumes_as,
       fingerprints, policy_revision
FROM experiment
WHERE id = :experiment

-- NO KEY UPDATE: an INSERT of a row that refers to the experiment takes a key lock on it and must not wait here. With FOR
-- UPDATE an assignment would wait for a reward that completes a replication, while the reward waits for the assignment.
-- name: lock_experiment
SELECT id, name, definition, options, status, reason, salt, streams, started_us, fallback, sticky, resumes_as,
       fingerprints, policy_revision
FROM experiment
WHERE id = :experiment /*pg FOR NO KEY UPDATE */

-- An id is never used again: the history has a row of every experiment, deleted or not.
-- name: start
INSERT INTO experiment (id, name, definition, fingerprints, options, status, reason, salt, streams, started_us)
VALUES ((SELECT COALESCE(MAX(id), 0) + 1 FROM
           (SELECT MAX(id) AS id FROM experiment UNION ALL SELECT MAX(experiment) FROM change) AS used),
        :name, :definition, :fingerprints, :options, 'running', '', :salt, :streams, :now) RETURNING id

-- name: record_change
INSERT INTO change (experiment, name, at_us, what, subject, actor, reason)
VALUES (:experiment, :name, :now, :what, :subject, :actor, :reason)

-- name: changes
SELECT at_us, name, what, subject, actor, reason FROM change WHERE experiment = :experiment ORDER BY id

-- name: rehearsed_on
SELECT subject FROM change WHERE experiment = :experiment AND what = 'rehearsed on' ORDER BY id

-- name: all_changes
SELECT at_us, name, what, subject, actor, reason FROM change ORDER BY id

-- name: disable_arm
INSERT INTO disabled_arm (experiment, arm) VALUES (:experiment, :arm)

-- name: enable_arm
DELETE FROM disabled_arm WHERE experiment = :experiment AND arm = :arm

-- name: disabled_arms
SELECT arm FROM disabled_arm WHERE experiment = :experiment ORDER BY arm

-- name: set_fallback
UPDATE experiment SET fallback = :fallback WHERE id = :experiment

-- name: set_sticky
UPDATE experiment SET sticky = :sticky WHERE id = :experiment

-- name: set_status
UPDATE experiment SET status = :status, reason = :reason,
                      resumes_as = CASE WHEN status IN ('running', 'draining') THEN status ELSE resumes_as END
WHERE id = :experiment

-- name: set_definition
UPDATE experiment SET definition = :definition, fingerprints = :fingerprints, policy_revision = :revision
WHERE id = :experiment

-- name: set_policies
UPDATE replication SET policies = :policies, policy_revision = :revision WHERE experiment = :experiment

-- name: set_options
UPDATE experiment SET options = :options WHERE id = :experiment

-- name: open_replication
INSERT INTO replication (experiment, number, state, version, digested, policies, policy_revision, opened_us)
VALUES (:experiment, :number, 'open', 0, 0, :policies, :revision, :now)

-- name: advance_replication, for lists
UPDATE replication SET version = :version, state = :state, policies = :policies, behind = 0,
                       defaulted = defaulted + :defaulted,
                       digest = (digest + :digest) % 4611686018427387904,
                       digested = CASE WHEN digested = :before THEN :version ELSE digested END,
                       completed_us = CASE WHEN :complete THEN COALESCE(completed_us, :now) END
WHERE experiment = :experiment AND number = :replication

-- For a reward that reaches a process without the code of the policies.
-- name: fall_behind
UPDATE replication SET version = :version, behind = behind + 1, defaulted = defaulted + :defaulted,
                       digest = (digest + :digest) % 4611686018427387904,
                       digested = CASE WHEN digested = :version - 1 THEN :version ELSE digested END
WHERE experiment = :experiment AND number = :replication

-- name: behind
SELECT number FROM replication WHERE experiment = :experiment AND behind > 0 ORDER BY number

-- name: replications
SELECT number, state, version, behind, taken_back FROM replication WHERE experiment = :experiment ORDER BY number

-- name: lock_replication
SELECT number AS replication, version, taken_back, policy_revision, behind, digest, digested FROM replication
WHERE experiment = :experiment AND number = :replication /*pg FOR UPDATE */

-- name: marks
SELECT number, state, version, digest, digested, taken_back, behind, policy_revision, voided, pruned, pruned_digest
FROM replication WHERE experiment = :experiment ORDER BY number

-- Erased assignments by replication. The hash of a unit has no r.
-- name: count_erased
SELECT replication AS number, COUNT(*) AS total FROM assignment
WHERE experiment = :experiment AND unit >= 'er' AND unit < 'es' GROUP BY replication ORDER BY replication

-- name: digests
SELECT number, version, digest, digested FROM replication WHERE experiment = :experiment ORDER BY number

-- name: lock_digest
SELECT number, version, digest, digested FROM replication
WHERE experiment = :experiment AND number = :replication /*pg FOR UPDATE */

-- name: set_digest
UPDATE replication SET digest = :digest, digested = version WHERE experiment = :experiment AND number = :replication

-- Rewards of the ledger that differ from the audit log.
-- name: edited
SELECT e.replication, e.arm, e.position, e.value, v.value AS reported, e.assignment FROM entry e
JOIN reward_event v ON v.assignment = e.assignment AND v.outcome = 'applied'
WHERE e.experiment = :experiment AND e.replication >= :first AND e.replication < :stop AND e.value <> v.value
ORDER BY e.replication, e.arm, e.position LIMIT 100

-- name: lock_all_replications
SELECT number, state, version, behind, taken_back FROM replication WHERE experiment = :experiment
ORDER BY number /*pg FOR UPDATE */

-- name: count_open
SELECT COUNT(*) FROM replication WHERE experiment = :experiment AND state = 'open'

-- name: any_outstanding
SELECT EXISTS (SELECT 1 FROM entry WHERE experiment = :experiment AND state = 'wanted' AND released = 0)
    OR EXISTS (SELECT 1 FROM entry WHERE experiment = :experiment AND state = 'assigned' AND released = 0)

-- name: last_replication
SELECT COALESCE(MAX(number), -1) FROM replication WHERE experiment = :experiment

-- A released entry is needed again. Any other entry that exists already is an error: NULL violates the constraint.
-- name: want, for lists
INSERT INTO entry (experiment, replication, owner, arm, position, state)
VALUES (:experiment, :replication, :stack_owner, :arm, :position, 'wanted')
ON CONFLICT (experiment, replication, owner, arm, position)
DO UPDATE SET released = CASE WHEN entry.released = 1 AND entry.state <> 'settled' THEN 0 END

-- name: release
UPDATE entry SET released = 1
WHERE experiment = :experiment AND replication = :replication AND owner = :stack_owner AND arm = :arm
  AND position = :position

-- name: import_replication, for lists
INSERT INTO replication (experiment, number, state, version, imported, policies, opened_us, completed_us)
VALUES (:experiment, :number, :state, :version, :version, :policies, :now, CASE WHEN :complete THEN CAST(:now AS BIGINT) END)

-- name: import_entry, for lists
INSERT INTO entry (experiment, replication, owner, arm, position, state, value, source, settled, settled_us)
VALUES (:experiment, :replication, :stack_owner, :arm, :position, :state, :value, :source, :settled, :now)

-- name: enrolment, for lists
SELECT e.status, e.fallback, e.sticky, a.id, a.arm, a.told,
       EXISTS (SELECT 1 FROM disabled_arm d WHERE d.experiment = e.id AND d.arm = a.arm) AS disabled,
       EXISTS (SELECT 1 FROM replication r WHERE r.experiment = e.id AND r.behind > 0) AS behind, v.away_until_us
FROM experiment e
LEFT JOIN assignment a ON a.experiment = e.id AND a.unit = :unit AND a.voided_us IS NULL
LEFT JOIN arrival v ON v.experiment = e.id AND v.unit = :unit
WHERE e.id = :experiment

-- Lowest open replication first. No row if the unit is enrolled already or the experiment is not running. Entries of
-- disabled arms are not assigned. SKIP LOCKED lets concurrent calls take different entries without a wait.
-- name: assign
UPDATE entry SET state = 'assigned', assignment = :assignment, due_us = :due
WHERE (experiment, replication, owner, arm, position) = (
  SELECT w.experiment, w.replication, w.owner, w.arm, w.position FROM entry w
  WHERE w.experiment = :experiment AND w.state = 'wanted' AND w.released = 0
    AND EXISTS (SELECT 1 FROM experiment x WHERE x.id = :experiment AND x.status IN ('running', 'draining'))
    AND NOT EXISTS (SELECT 1 FROM assignment a WHERE a.experiment = :experiment AND a.unit = :unit
                                                 AND a.voided_us IS NULL)
    AND NOT EXISTS (SELECT 1 FROM arrival v WHERE v.experiment = :experiment AND v.unit = :unit
                                              AND v.away_until_us > :now)
    AND NOT EXISTS (SELECT 1 FROM disabled_arm d WHERE d.experiment = :experiment AND d.arm = w.arm)
  ORDER BY w.replication, w.owner, w.arm, w.position LIMIT 1 /*pg FOR UPDATE OF w SKIP LOCKED */)
RETURNING replication, owner AS stack_owner, arm, position

-- name: enrol, for lists
INSERT INTO assignment (id, experiment, replication, owner, arm, position, unit, assigned_us)
VALUES (:assignment, :experiment, :replication, :stack_owner, :arm, :position, :unit, :now)

-- The unit gets an entry, or is turned away until a time.
-- name: arrive, for lists
INSERT INTO arrival (experiment, unit, visits, away_until_us)
VALUES (:experiment, :unit, 1, :until)
ON CONFLICT (experiment, unit) DO UPDATE SET visits = arrival.visits + 1, away_until_us = excluded.away_until_us

-- Undo `arrive` for a call that tries again before it answers.
-- name: unarrive
UPDATE arrival SET visits = visits - 1, away_until_us = 0 WHERE experiment = :experiment AND unit = :unit

-- An UPDATE, not an INSERT: the unit may have been erased meanwhile.
-- name: count_visits, for lists
UPDATE arrival SET visits = visits + :visits
WHERE experiment = :experiment AND unit = :unit
  AND EXISTS (SELECT 1 FROM experiment x WHERE x.id = :experiment AND x.status IN ('running', 'draining'))

-- Units by their number of visits (1, 2 to 3, 4 to 7, 8 to 15, 16 and more), and how many of them are enrolled; of the
-- units whose hash is below a bound. CASE is the expression of the index one_enrolment_a_unit, so that no row is read.
-- name: arrivals
SELECT least, COUNT(*) AS arrived, COALESCE(SUM(enrolled), 0) AS enrolled
FROM (SELECT CASE WHEN v.visits < 2 THEN 1 WHEN v.visits < 4 THEN 2 WHEN v.visits < 8 THEN 4 WHEN v.visits < 16 THEN 8
                  ELSE 16 END AS least,
             CASE WHEN EXISTS (SELECT 1 FROM assignment a WHERE a.experiment = v.experiment AND a.unit = v.unit
                                 AND (CASE WHEN a.voided_us IS NULL THEN '' ELSE a.id END) = '') THEN 1 ELSE 0 END AS enrolled
      FROM arrival v WHERE v.experiment = :experiment AND v.unit < :bound) AS units
GROUP BY least ORDER BY least

-- PostgreSQL locks the replication first and reads the locked rows again once it has the locks; other rows do not change
-- while the entry is locked. Without "+ 0" a plan made while the tables were empty may search all entries of the
-- replication.
-- name: lock_assignment, for lists
SELECT a.id, a.experiment, a.replication, a.owner AS stack_owner, a.arm, a.position, a.exposed_us, e.assignment,
       e.state, e.due_us, e.value, e.source, a.told, r.version, r.taken_back, r.policy_revision, r.behind, r.digest, r.digested
FROM assignment a
JOIN entry e ON e.experiment = a.experiment AND e.replication = a.replication AND e.owner = a.owner
            AND e.arm = a.arm AND e.position = a.position
JOIN replication r ON r.experiment = a.experiment + 0 AND r.number = a.replication + 0
WHERE a.id = :assignment /*pg FOR UPDATE OF r, e, a */

-- SKIP LOCKED avoids a deadlock between assign_many and reward: a list of units must not wait for an assignment that a
-- reward has locked. A locked assignment needs no mark: an application knows it or it is due, so it is not voided as
-- undelivered.
-- name: tell
UPDATE assignment SET told = 1
WHERE id = (SELECT id FROM assignment WHERE id = :assignment /*pg FOR NO KEY UPDATE SKIP LOCKED */)

-- name: describe
SELECT a.experiment, a.replication, a.owner AS stack_owner, a.arm, a.position, a.assigned_us, a.exposed_us, a.voided_us,
       e.state, e.value, e.source, e.settled_us, e.due_us
FROM assignment a
JOIN entry e ON e.experiment = a.experiment AND e.replication = a.replication AND e.owner = a.owner
            AND e.arm = a.arm AND e.position = a.position
WHERE a.id = :assignment

-- name: note_reward, for lists
INSERT INTO reward_event (assignment, value, received_us, outcome)
VALUES (:assignment, :value, :now, :outcome)

-- A default reward keeps the end of its window, which may still be extended.
-- name: settle, for lists
UPDATE entry SET state = 'settled', value = :value, source = :source, settled = :settled, settled_us = :now,
                 due_us = CASE WHEN :source = 'default' THEN due_us END
WHERE experiment = :experiment AND replication = :replication AND owner = :stack_owner AND arm = :arm
  AND position = :position AND assignment = :assignment

-- Default rewards of open replications whose extended window is not over, or holds a late reward; latest first.
-- name: defaults
SELECT d.replication, d.owner AS stack_owner, d.arm, d.position, d.value, d.settled, d.assignment, d.due_us, v.id AS event,
       v.value AS late
FROM (SELECT e.replication, e.owner, e.arm, e.position, e.value, e.settled, e.assignment,
             COALESCE(e.due_us, COALESCE(a.exposed_us, a.assigned_us) + CAST(:window AS BIGINT)) + :more AS due_us
      FROM replication r
      CROSS JOIN entry e
      JOIN assignment a ON a.id = e.assignment
      WHERE r.experiment = :experiment AND r.state = 'open' AND e.experiment = r.experiment
        AND e.replication = r.number AND e.state = 'settled' AND e.source = 'default'
        AND SUBSTR(a.unit, 1, 7) <> 'erased ') AS d
LEFT JOIN reward_event v ON v.id = (SELECT MIN(w.id) FROM reward_event w
                                    WHERE w.assignment = d.assignment AND w.outcome = 'late'
                                      AND w.received_us <= d.due_us)
WHERE d.due_us > :now OR v.id IS NOT NULL
ORDER BY d.replication, d.settled DESC

-- Outstanding entries of a replication. An entry is touched if it has had an assignment, voided or not.
-- name: touched
SELECT e.owner AS stack_owner, e.arm, e.position, e.state = 'wanted' AS wanted,
       EXISTS (SELECT 1 FROM assignment a
               WHERE a.experiment = e.experiment AND a.replication = e.replication AND a.owner = e.owner
                 AND a.arm = e.arm AND a.position = e.position) AS touched
FROM entry e
WHERE e.experiment = :experiment AND e.replication = :replication AND e.state IN ('wanted', 'assigned')
  AND e.released = 0

-- name: unsettle
UPDATE entry SET state = 'assigned', value = NULL, source = NULL, settled = NULL, settled_us = NULL, due_us = :due
WHERE experiment = :experiment AND replication = :replication AND owner = :stack_owner AND arm = :arm
  AND position = :position

-- name: close_gap
UPDATE entry SET settled = settled - 1
WHERE experiment = :experiment AND replication = :replication AND state = 'settled' AND settled > :settled

-- name: withdraw
DELETE FROM entry
WHERE experiment = :experiment AND replication = :replication AND owner = :stack_owner AND arm = :arm
  AND position = :position AND state = 'wanted'

-- name: take_back
UPDATE replication SET version = version - :taken, defaulted = defaulted - :taken, taken_back = taken_back + 1,
                       digest = (digest + :digest) % 4611686018427387904,
                       digested = CASE WHEN digested = version THEN version - :taken ELSE -1 END
WHERE experiment = :experiment AND number = :replication

-- name: count_taken_back
SELECT COALESCE(SUM(taken_back), 0) FROM replication WHERE experiment = :experiment

-- name: count_awaited
SELECT COUNT(*) FROM entry WHERE experiment = :experiment AND state = 'assigned' AND due_us > -9000000000000000000
  AND (:leases = 1 OR EXISTS (SELECT 1 FROM assignment a WHERE a.id = entry.assignment AND a.exposed_us IS NOT NULL))

-- name: expose
UPDATE assignment SET exposed_us = :now WHERE id = :assignment

-- name: set_due
UPDATE entry SET due_us = :due
WHERE experiment = :experiment AND replication = :replication AND owner = :stack_owner AND arm = :arm
  AND position = :position

-- name: void
UPDATE assignment SET voided_us = :now WHERE id = :assignment

-- name: count_void
UPDATE replication SET voided = voided + 1 WHERE experiment = :experiment AND number = :replication

-- name: want_again
UPDATE entry SET state = 'wanted', assignment = NULL, due_us = NULL
WHERE experiment = :experiment AND replication = :replication AND owner = :stack_owner AND arm = :arm
  AND position = :position AND assignment = :assignment

-- name: overdue
SELECT assignment FROM entry
WHERE experiment = :experiment AND state = 'assigned' AND due_us <= :now ORDER BY due_us LIMIT :limit

-- name: values
SELECT value FROM entry
WHERE experiment = :experiment AND replication = :replication AND owner = :stack_owner AND arm = :arm
  AND position >= :first AND position < :stop AND state = 'settled' ORDER BY position

-- name: settled_since
SELECT owner AS stack_owner, arm, position, value FROM entry
WHERE experiment = :experiment AND replication = :replication AND state = 'settled' AND settled > :version
ORDER BY settled

-- name: ledger
SELECT replication, owner AS stack_owner, arm, position, value, source = 'imported' AS imported,
       released = 1 AS released
FROM entry
WHERE experiment = :experiment AND replication >= :first AND replication < :stop AND state = 'settled'
ORDER BY experiment, replication, owner, arm, position

-- name: all_outstanding
SELECT replication, owner AS stack_owner, arm, position FROM entry
WHERE experiment = :experiment AND state = 'wanted' AND released = 0
UNION ALL
SELECT replication, owner AS stack_owner, arm, position FROM entry
WHERE experiment = :experiment AND state = 'assigned' AND released = 0

-- name: outstanding
SELECT replication, owner AS stack_owner, arm, position FROM entry
WHERE experiment = :experiment AND replication >= :first AND replication < :stop AND state IN ('wanted', 'assigned')
  AND released = 0
ORDER BY experiment, replication, owner, arm, position

-- Counters of replications and counts of outstanding entries, by index; reads no settled entry.
-- name: progress
SELECT x.definition, x.status, x.reason, x.options, r.opened, r.complete, r.first_open, r.settled, r.imported,
       r.defaulted, r.voided, r.behind,
       (SELECT COUNT(*) FROM entry WHERE experiment = x.id AND state = 'wanted' AND released = 0) AS wanted,
       (SELECT COUNT(*) FROM entry WHERE experiment = x.id AND state = 'assigned') AS waiting,
       (SELECT COUNT(*) FROM disabled_arm d JOIN entry e ON e.experiment = d.experiment AND e.arm = d.arm
        WHERE d.experiment = x.id AND e.state = 'wanted' AND e.released = 0) AS held
FROM experiment x
CROSS JOIN (SELECT COUNT(*) AS opened, COALESCE(SUM(CASE WHEN state = 'complete' THEN 1 ELSE 0 END), 0) AS complete,
                   MIN(CASE WHEN state = 'open' THEN number END) AS first_open,
                   COALESCE(SUM(version), 0) AS settled, COALESCE(SUM(imported), 0) AS imported,
                   COALESCE(SUM(defaulted), 0) AS defaulted, COALESCE(SUM(voided), 0) AS voided,
                   COALESCE(SUM(CASE WHEN behind > 0 THEN 1 ELSE 0 END), 0) AS behind
            FROM replication WHERE experiment = :experiment) AS r
WHERE x.id = :experiment

-- name: experiments
SELECT id, name FROM experiment ORDER BY id

-- name: experiment_states
SELECT name, status, reason FROM experiment ORDER BY id

-- name: all_answers
SELECT experiment, reason, calls FROM answer ORDER BY experiment, reason

-- name: all_disabled_arms
SELECT experiment, arm FROM disabled_arm ORDER BY experiment, arm

-- name: count_entries
SELECT 'wanted' AS state, COUNT(*) AS total FROM entry
WHERE experiment = :experiment AND state = 'wanted' AND released = 0
UNION ALL
SELECT 'assigned' AS state, COUNT(*) AS total FROM entry
WHERE experiment = :experiment AND state = 'assigned' AND released = 0

-- name: count_complete_after
SELECT COUNT(*) FROM replication WHERE experiment = :experiment AND state = 'complete' AND number > :replication

-- name: waiting
SELECT (SELECT COUNT(*) FROM entry WHERE experiment = :experiment AND replication = :replication AND state = 'assigned'
          AND released = 0) AS rewards,
       (SELECT COUNT(*) FROM entry WHERE experiment = :experiment AND replication = :replication AND state = 'wanted'
          AND released = 0) AS users,
       (SELECT COUNT(*) FROM entry WHERE experiment = :experiment AND replication = :replication AND state = 'wanted'
          AND released = 0 AND arm IN (SELECT arm FROM disabled_arm WHERE experiment = :experiment)) AS held,
       (SELECT MAX(due_us) FROM entry WHERE experiment = :experiment AND replication = :replication
          AND state = 'assigned' AND released = 0) AS due_us

-- name: count_answers
INSERT INTO answer (experiment, reason, calls)
SELECT CAST(:experiment AS INTEGER), :reason, CAST(:calls AS BIGINT)
WHERE EXISTS (SELECT 1 FROM experiment WHERE id = :experiment)  -- it may have been deleted
ON CONFLICT (experiment, reason) DO UPDATE SET calls = answer.calls + excluded.calls

-- name: note_clock
INSERT INTO process_clock (process, ahead_us, seen_us) VALUES (:process, :ahead, :now)
ON CONFLICT (process) DO UPDATE SET ahead_us = excluded.ahead_us, seen_us = excluded.seen_us

-- name: forget_clocks
DELETE FROM process_clock WHERE seen_us < :before

-- The condition on due_us holds for every assigned entry; it makes SQLite use the index entry_due.
-- name: extend_windows
UPDATE entry SET due_us = due_us + :more
WHERE experiment = :experiment AND state = 'assigned' AND due_us > -9000000000000000000
  AND (:leases = 1 OR EXISTS (SELECT 1 FROM assignment a WHERE a.id = entry.assignment AND a.exposed_us IS NOT NULL))

-- name: answers
SELECT reason, calls FROM answer WHERE experiment = :experiment ORDER BY reason

-- In the order of the primary key, so that nothing is sorted, however long the ledger.
-- name: history
SELECT e.replication, e.owner AS stack_owner, e.arm, e.position, e.state, e.value, e.source, e.settled_us,
       a.id, a.unit, a.assigned_us, a.exposed_us, a.voided_us
FROM entry e LEFT JOIN assignment a ON a.id = e.assignment
WHERE e.experiment = :experiment AND NOT (e.state = 'wanted' AND e.released = 1)
ORDER BY e.experiment, e.replication, e.owner, e.arm, e.position

-- name: voided
SELECT replication, owner AS stack_owner, arm, position, 'voided' AS state, NULL AS value, NULL AS source,
       NULL AS settled_us, id, unit, assigned_us, exposed_us, voided_us
FROM assignment WHERE experiment = :experiment AND voided_us IS NOT NULL ORDER BY id

-- With CROSS JOIN SQLite reads the events in their order and sorts nothing.
-- name: events
SELECT v.assignment, a.replication, a.arm, a.position, v.value, v.outcome, v.received_us FROM reward_event v
CROSS JOIN assignment a WHERE a.id = v.assignment AND a.experiment = :experiment ORDER BY v.id

-- Assignments of a span of replications, every step-th entry of a stack, with their outcome: 0 observed, 1 defaulted,
-- 2 voided, -1 open. In the order of an index, so that nothing is sorted.
-- name: assignments
SELECT a.replication, a.arm, a.position, a.assigned_us, COALESCE(a.exposed_us, a.assigned_us) AS shown_us,
       a.exposed_us IS NOT NULL AS exposed,
       CASE WHEN a.voided_us IS NOT NULL THEN 2 WHEN e.source = 'observed' THEN 0 WHEN e.source = 'default' THEN 1
            ELSE -1 END AS outcome,
       a.voided_us IS NULL AND e.state = 'assigned' AND COALESCE(e.due_us <= :now, FALSE) AS overdue,
       COALESCE(e.value, 0) AS value, COALESCE(e.settled_us, 0) AS settled_us
FROM assignment a
JOIN entry e ON e.experiment = a.experiment AND e.replication = a.replication AND e.owner = a.owner
            AND e.arm = a.arm AND e.position = a.position
WHERE a.experiment = :experiment AND a.replication >= :first AND a.replication < :stop
  AND (a.position + a.arm + a.replication) % :step = 0
ORDER BY a.experiment, a.replication, a.owner, a.arm, a.position, (CASE WHEN a.voided_us IS NULL THEN '' ELSE a.id END)

-- Late rewards after an event; a late reward that was accepted by an extension is logged again, as applied. With CROSS
-- JOIN SQLite reads the events first, and not all assignments.
-- name: late
SELECT v.id AS event, v.assignment, a.arm FROM reward_event v CROSS JOIN assignment a
WHERE v.id > :event AND v.outcome = 'late' AND a.id = v.assignment AND a.experiment = :experiment
  AND NOT EXISTS (SELECT 1 FROM reward_event w WHERE w.assignment = v.assignment AND w.outcome = 'applied')

-- name: last_event
SELECT COALESCE(MAX(id), 0) FROM reward_event

-- Changes after which the audit log has fewer lines, or late rewards count.
-- name: count_log_changes
SELECT COUNT(*) FROM change
WHERE experiment = :experiment AND what IN ('unit erased', 'audit log pruned', 'windows extended')

-- name: audits
SELECT e.replication, e.value - s.value AS difference FROM entry e
JOIN entry s ON s.experiment = e.experiment AND s.replication = e.replication AND s.owner = 0 AND s.arm = e.arm
            AND s.position = e.position
WHERE e.experiment = :experiment AND e.replication >= :first AND e.replication < :stop AND e.owner = -1
ORDER BY e.experiment, e.replication, e.arm, e.position

-- name: replication_progress
SELECT number, state, version, defaulted, voided, opened_us, completed_us FROM replication
WHERE experiment = :experiment ORDER BY number

-- name: experiment_of
SELECT x.name FROM assignment a JOIN experiment x ON x.id = a.experiment WHERE a.id = :assignment

-- name: api_keys
SELECT id, secret_sha256, scopes, created_us, revoked_us FROM api_key ORDER BY created_us, id

-- name: add_api_key
INSERT INTO api_key (id, secret_sha256, scopes, created_us) VALUES (:id, :digest, :scopes, :now)

-- name: revoke_api_key
UPDATE api_key SET revoked_us = COALESCE(revoked_us, :now) WHERE id = :id

-- name: often_voided
SELECT replication, arm, position, COUNT(*) AS times FROM assignment
WHERE experiment = :experiment AND replication >= :first AND replication < :stop AND voided_us IS NOT NULL
GROUP BY replication, owner, arm, position HAVING COUNT(*) > :often ORDER BY COUNT(*) DESC, replication LIMIT 100

-- name: delete_events
DELETE FROM reward_event
WHERE assignment IN (SELECT id FROM assignment WHERE experiment = :experiment AND replication >= :first)

-- name: delete_assignments
DELETE FROM assignment WHERE experiment = :experiment AND replication >= :first

-- name: delete_entries
DELETE FROM entry WHERE experiment = :experiment AND replication >= :first

-- name: delete_replications
DELETE FROM replication WHERE experiment = :experiment AND number >= :first

-- name: delete_arrivals
DELETE FROM arrival WHERE experiment = :experiment
  AND unit IN (SELECT unit FROM arrival WHERE experiment = :experiment ORDER BY unit LIMIT :limit)

-- name: any_arrival
SELECT COUNT(*) FROM (SELECT 1 FROM arrival WHERE experiment = :experiment LIMIT 1) AS one

-- name: delete_answers
DELETE FROM answer WHERE experiment = :experiment

-- name: delete_disabled_arms
DELETE FROM disabled_arm WHERE experiment = :experiment

-- name: delete_experiment
DELETE FROM experiment WHERE id = :experiment

-- The sign keeps SQLite from reading all assignments in order to avoid a sort: a unit has few.
-- name: assignments_of
SELECT id FROM assignment WHERE experiment = :experiment AND unit = :unit ORDER BY +replication, id

-- name: applied_reward
SELECT a.replication, a.owner AS stack_owner, a.arm, a.position, v.value
FROM reward_event v JOIN assignment a ON a.id = v.assignment
WHERE v.assignment = :assignment AND v.outcome = 'applied'

-- name: erase_events
DELETE FROM reward_event WHERE assignment = :assignment

-- Times are rounded down to the hour: exact times would identify the visit.
-- name: erase_entry
UPDATE entry SET assignment = :new, settled_us = settled_us - settled_us % :hour, due_us = NULL
WHERE experiment = :experiment AND replication = :replication AND owner = :stack_owner AND arm = :arm
  AND position = :position AND assignment = :assignment

-- name: erase_assignment
UPDATE assignment SET id = :new, unit = :unit, assigned_us = assigned_us - assigned_us % :hour,
                      exposed_us = exposed_us - exposed_us % :hour, voided_us = voided_us - voided_us % :hour
WHERE id = :assignment

-- name: arrived
SELECT 1 FROM arrival WHERE experiment = :experiment AND unit = :unit

-- name: erase_arrival
DELETE FROM arrival WHERE experiment = :experiment AND unit = :unit

-- name: set_salt
UPDATE experiment SET salt = :salt WHERE id = :experiment

-- name: note_pruned
UPDATE replication SET pruned = pruned + :pruned, pruned_digest = (pruned_digest + :digest) % 4611686018427387904
WHERE experiment = :experiment AND number = :replication

-- name: last_change
SELECT COALESCE(MAX(at_us), 0) FROM change WHERE experiment = :experiment

-- name: lock_span
SELECT number FROM replication WHERE experiment = :experiment AND number >= :first AND number <= :last
ORDER BY number /*pg FOR UPDATE */

-- name: count_old_events
SELECT COUNT(*) FROM replication r
JOIN assignment a ON a.experiment = r.experiment AND a.replication = r.number
JOIN reward_event v ON v.assignment = a.id
WHERE r.experiment = :experiment AND r.number >= :first AND r.number <= :last AND r.state = 'complete'
  AND v.received_us < :before

-- name: old_rewards
SELECT a.replication, a.owner AS stack_owner, a.arm, a.position, v.value FROM replication r
JOIN assignment a ON a.experiment = r.experiment AND a.replication = r.number
JOIN reward_event v ON v.assignment = a.id
WHERE r.experiment = :experiment AND r.number >= :first AND r.number <= :last AND r.state = 'complete'
  AND v.received_us < :before AND v.outcome = 'applied'
ORDER BY a.replication

-- name: delete_old_events
DELETE FROM reward_event WHERE id IN (
  SELECT v.id FROM replication r
  JOIN assignment a ON a.experiment = r.experiment AND a.replication = r.number
  JOIN reward_event v ON v.assignment = a.id
  WHERE r.experiment = :experiment AND r.number >= :first AND r.number <= :last AND r.state = 'complete'
    AND v.received_us < :before)

-- Rewards that differ from the audit log, and observed rewards that are not in it.
-- name: unlogged
SELECT e.replication, e.owner AS stack_owner, e.arm, e.position, e.value, v.value AS reported, e.assignment FROM entry e
LEFT JOIN reward_event v ON v.assignment = e.assignment AND v.outcome = 'applied'
WHERE e.experiment = :experiment AND e.replication >= :first AND e.replication < :stop
  AND (e.value <> v.value OR (e.source = 'observed' AND v.value IS NULL))
ORDER BY e.experiment, e.replication, e.owner, e.arm, e.position

-- The statements below are for PostgreSQL alone. SQLite has one writer and needs none of them.

-- `assign` for a list of units: the n-th unit to enrol gets the n-th entry. Without OFFSET 0 PostgreSQL may read every
-- unit of the experiment.
-- name: assign_list
WITH unit AS (
  SELECT item.number, item.assignment, row_number() OVER (ORDER BY item.number) AS n
  FROM unnest(CAST(:assignments AS text[]), CAST(:units AS text[])) WITH ORDINALITY AS item(assignment, unit, number)
  WHERE EXISTS (SELECT 1 FROM experiment x WHERE x.id = :experiment AND x.status IN ('running', 'draining'))
    AND NOT EXISTS (SELECT 1 FROM assignment a WHERE a.experiment = :experiment AND a.unit = item.unit
                                                 AND a.voided_us IS NULL OFFSET 0)
    AND NOT EXISTS (SELECT 1 FROM arrival v WHERE v.experiment = :experiment AND v.unit = item.unit
                                              AND v.away_until_us > :now OFFSET 0)),
wanted AS (
  SELECT *, row_number() OVER (ORDER BY replication, owner, arm, position) AS n FROM (
    SELECT w.experiment, w.replication, w.owner, w.arm, w.position FROM entry w
    WHERE w.experiment = :experiment AND w.state = 'wanted' AND w.released = 0
      AND NOT EXISTS (SELECT 1 FROM disabled_arm d WHERE d.experiment = :experiment AND d.arm = w.arm)
    ORDER BY w.replication, w.owner, w.arm, w.position
    LIMIT (SELECT COUNT(*) FROM unit) FOR UPDATE OF w SKIP LOCKED) AS first)
UPDATE entry e SET state = 'assigned', assignment = unit.assignment, due_us = :due
FROM wanted w JOIN unit ON unit.n = w.n
WHERE (e.experiment, e.replication, e.owner, e.arm, e.position)
    = (w.experiment, w.replication, w.owner, w.arm, w.position)
RETURNING unit.number, e.replication, e.owner AS stack_owner, e.arm, e.position

-- name: lock, for lists
SELECT pg_advisory_xact_lock(:number) IS NULL

-- name: try_lock, for lists
SELECT pg_try_advisory_xact_lock(:number)

-- name: plan_again
DISCARD PLANS

-- Until the end of the transaction. Without a limit the server's own statement_timeout stays. With by_index a list of
-- unknown length is joined with a table by index, even if the tables were empty when the statement was planned. A plan
-- without an index then looks so costly that PostgreSQL would compile it, which takes 0.2 seconds; so jit is off.
-- A process that stops between two statements of a call for a user keeps its row locks, so the server ends its session
-- after some milliseconds, unless the server has a limit of its own.
-- name: set_server_options
SELECT set_config('statement_timeout', COALESCE(:milliseconds, current_setting('statement_timeout')), true),
       set_config('idle_in_transaction_session_timeout',
                  CASE current_setting('idle_in_transaction_session_timeout') WHEN '0' THEN COALESCE(:idle, '0')
                       ELSE current_setting('idle_in_transaction_session_timeout') END, true),
       CASE WHEN :by_index THEN (SELECT COUNT(set_config(name, 'off', true))
            FROM unnest(ARRAY['enable_hashjoin', 'enable_mergejoin', 'enable_seqscan', 'jit']) AS name) END

-- name: server_clock
SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT)
