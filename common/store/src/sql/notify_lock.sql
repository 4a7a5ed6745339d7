-- One agent at a time turns notes into messages, so that a job's come in their order; the others let it. The next
-- statement's snapshot then has what whoever had it before did.
SELECT pg_try_advisory_xact_lock(7377299466905054823) AS free
