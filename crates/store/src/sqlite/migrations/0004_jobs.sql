-- One row per job. Columns hold what is searched and what each run changes; the rest is one packed JSON text.
create table jobs (
  job integer primary key,
  id blob not null unique check (length(id) = 16),
  queue text not null,
  state text not null check (state in ('scheduled', 'available', 'pending', 'active', 'completed', 'retryable', 'cancelled', 'discarded')),
  priority integer not null,
  attempt integer not null,
  enqueued_at integer not null,
  started_at integer,
  worker text,
  visibility_ms integer,
  held_until integer,
  timeout_at integer,
  due_at integer,
  ended_at integer,
  dead integer not null check (dead in (0, 1)),
  version integer not null check (version >= 1),
  detail blob not null,
  check ((ended_at is not null) = (state in ('completed', 'cancelled', 'discarded'))),
  check (dead = 0 or state = 'discarded')
);
-- Those of one millisecond go by their row, which is the order they came in.
create index jobs_waiting on jobs (queue, priority desc, enqueued_at) where state = 'available';
create index jobs_due on jobs (due_at) where due_at is not null;
create index jobs_ended on jobs (state, ended_at) where ended_at is not null and dead = 0;

-- Made by the first job of a queue; what it holds is counted as jobs move.
create table queues (
  name text primary key,
  paused integer not null check (paused in (0, 1)),
  created_at integer not null,
  scheduled integer not null default 0,
  available integer not null default 0,
  pending integer not null default 0,
  active integer not null default 0,
  completed integer not null default 0,
  retryable integer not null default 0,
  cancelled integer not null default 0,
  discarded integer not null default 0
) without rowid;

alter table events add column job blob check (length(job) = 16);
