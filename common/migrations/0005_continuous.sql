-- Jobs with schedule = "@continuous": always one live run per instance, which is its loop's present round.
ALTER TABLE farmhand.job ADD COLUMN continuous boolean NOT NULL DEFAULT false;
CREATE INDEX job_continuous ON farmhand.job (job_id) WHERE continuous;

-- The record of the success before, into which a success of this round folds, and its place in the history.
ALTER TABLE farmhand.run_live ADD COLUMN fold_run bigint, ADD COLUMN fold_at timestamptz;
CREATE UNIQUE INDEX run_live_continuous ON farmhand.run_live (job_id, instance) WHERE kind = 'continuous';
