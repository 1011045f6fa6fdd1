-- Lists and the message index follow capture: a letter that has just come in stands in none of them until it is listed, many
-- at a time. Readers list first what came in before they asked.
alter table dead_letter_queue add column listed integer not null default 1 check (listed in (0, 1));
drop index if exists letters_by_death;
drop index if exists letters_by_status;
drop index if exists letters_by_queue;
drop index if exists letters_by_type;
drop index if exists letters_by_error_type;
drop index if exists letters_by_class;
drop index if exists letters_by_source;
drop index if exists letters_by_fingerprint;
drop index if exists letters_by_event;
drop index if exists letters_by_subscriber;
drop index if exists letters_by_tenant;
drop index if exists letters_by_aggregate;
-- Nothing is found by it.
drop index if exists letters_by_schema_version;
drop index if exists letters_of_jobs;
drop index if exists letters_by_retention;
create index letters_by_death on dead_letter_queue (died_at, id) where listed = 1;
create index letters_by_status on dead_letter_queue (status, died_at, id) where listed = 1;
create index letters_by_queue on dead_letter_queue (queue, died_at, id) where listed = 1;
create index letters_by_type on dead_letter_queue (type, died_at, id) where listed = 1;
create index letters_by_error_type on dead_letter_queue (error_type, died_at, id) where listed = 1;
create index letters_by_class on dead_letter_queue (class, died_at, id) where listed = 1;
create index letters_by_source on dead_letter_queue (source, died_at, id) where listed = 1;
create index letters_by_fingerprint on dead_letter_queue (fingerprint, died_at, id) where listed = 1;
create index letters_by_event on dead_letter_queue (event_id, died_at, id) where listed = 1;
create index letters_by_subscriber on dead_letter_queue (subscriber_id, died_at, id) where subscriber_id is not null and listed = 1;
create index letters_by_tenant on dead_letter_queue (tenant, died_at, id) where tenant is not null and listed = 1;
create index letters_by_aggregate on dead_letter_queue (aggregate, died_at, id) where aggregate is not null and listed = 1;
create index letters_of_jobs on dead_letter_queue (status, died_at, id) where source = 'jobs' and listed = 1;
-- That nobody holds them stands in the index as well: SQLite would open each letter to see it.
create index letters_by_retention on dead_letter_queue (source, queue, status, retention_at, id, held_at)
  where held_at is null and listed = 1;
