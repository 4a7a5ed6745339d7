-- Room on the pages of live runs, and indexes that append: nothing is rewritten, what is there changes as it is used.

-- A claim changes what several indexes say about a run, so its new version wants room beside the old one. Without it the
-- old one is locked first, which is a record of its own in the log, and another page is written.
ALTER TABLE farmhand.run_live SET (fillfactor = 45);

-- Runs of one job, or of one session, share their key, and each stays for a moment. Folding equal keys together costs the
-- claims a tenth and saves nothing that lasts.
ALTER INDEX farmhand.run_live_job SET (deduplicate_items = off);
ALTER INDEX farmhand.run_live_held SET (deduplicate_items = off);
