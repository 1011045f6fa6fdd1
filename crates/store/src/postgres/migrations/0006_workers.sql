-- Workers as they tell of themselves; what they hold is in the rows of the jobs.
create table workers (
  name text collate "C" primary key,
  hostname text,
  pid bigint,
  queues text,
  concurrency bigint,
  started_at timestamptz(3),
  said text,
  wish text collate "C" not null check (wish in ('running', 'quiet', 'terminate')),
  first_seen_at timestamptz(3) not null,
  last_beat_at timestamptz(3) not null
) with (fillfactor = 70);
-- Names are compared by their bytes on both sides.
alter table jobs alter column worker type text collate "C";
create index jobs_held on jobs (worker, job) where state = 'active' and worker is not null;

-- How often each rule has put a letter back, over all its lives.
create table replays (
  letter uuid not null,
  rule text collate "C" not null,
  count bigint not null check (count >= 1),
  last_at timestamptz(3) not null,
  primary key (letter, rule)
);

-- What rules did in all, and whether a person switched one.
create table replay_rules (
  rule text collate "C" primary key,
  switched boolean,
  replayed bigint not null default 0,
  last_at timestamptz(3)
);
-- How many letters came to wait again by hand, in any instance: a rule may have passed their places.
alter table positions add column waiting_again bigint not null default 0;

-- Null in rows from before: their type is in the packed text alone.
alter table jobs add column type text collate "C";

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
