-- Which death of a message the source told last, as the source tells deaths apart. It outlives the letter: a row that is
-- still dead is not captured again after its letter was deleted or archived.
alter table letter_keys add column death text;
