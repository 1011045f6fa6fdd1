-- Workers as they tell of themselves; what they hold is in the rows of the jobs.
create table workers (
  name text primary key,
  hostname text,
  pid integer,
  queues text,
  concurrency integer,
  started_at integer,
  said text,
  wish text not null check (wish in ('running', 'quiet', 'terminate')),
  first_seen_at integer not null,
  last_beat_at integer not null
) without rowid;
create index jobs_held on jobs (worker) where state = 'active' and worker is not null;

-- How often each rule has put a letter back, over all its lives.
create table replays (
  letter blob not null check (length(letter) = 16),
  rule text not null,
  count integer not null check (count >= 1),
  last_at integer not null,
  primary key (letter, rule)
) without rowid;

-- What rules did in all, and whether a person switched one.
create table replay_rules (
  rule text primary key,
  switched integer check (switched in (0, 1)),
  replayed integer not null default 0,
  last_at integer
) without rowid;

-- Null in rows from before: their type is in the packed text alone.
alter table jobs add column type text;

-- Letters of jobs are counted by themselves, and found by themselves: the others pay nothing for it.
create index letters_of_jobs on dead_letter_queue (status, died_at, id) where source = 'jobs';
insert into counters (dimension, value, term, letters)
select 'job_queue', queue, status, count(*)
  from dead_letter_queue
 where source = 'jobs'
 group by queue, status;
insert into counters (dimension, value, term, letters)
select 'job_type', type, status, count(*)
  from dead_letter_queue
 where source = 'jobs'
 group by type, status;
insert into counters (dimension, value, term, letters)
select 'job_error_type', error_type, status, count(*)
  from dead_letter_queue
 where source = 'jobs'
 group by error_type, status;
