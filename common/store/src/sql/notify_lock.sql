-- One agent at a time turns notes into messages, so that a job's come in their order; the others let it. The next
-- statement's snapshot then has what whoever had it before did.
SELECT farmhand.be_alone('notes', NULL, false) AS free
