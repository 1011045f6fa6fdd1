-- One row per job. Columns hold what is searched and what each run changes; the rest is one packed JSON text.
create table jobs (
  job bigint generated always as identity primary key,
  id uuid not null unique,
  queue text collate "C" not null,
  state text collate "C" not null check (state in ('scheduled', 'available', 'pending', 'active', 'completed', 'retryable', 'cancelled', 'discarded')),
  priority bigint not null,
  attempt bigint not null,
  enqueued_at timestamptz(3) not null,
  started_at timestamptz(3),
  worker text,
  visibility_ms bigint,
  held_until timestamptz(3),
  timeout_at timestamptz(3),
  due_at timestamptz(3),
  ended_at timestamptz(3),
  dead boolean not null,
  version bigint not null check (version >= 1),
  detail bytea not null,
  check ((ended_at is not null) = (state in ('completed', 'cancelled', 'discarded'))),
  check (not dead or state = 'discarded')
);
alter table jobs alter column detail set storage external;
-- Those of one millisecond go by their row, which is the order they came in.
create index jobs_waiting on jobs (queue, priority desc, enqueued_at, job) where state = 'available';
create index jobs_due on jobs (due_at, job) where due_at is not null;
create index jobs_ended on jobs (state, ended_at) where ended_at is not null and not dead;

-- Made by the first job of a queue; what it holds is counted as jobs move.
create table queues (
  name text collate "C" primary key,
  paused boolean not null,
  created_at timestamptz(3) not null,
  scheduled bigint not null default 0,
  available bigint not null default 0,
  pending bigint not null default 0,
  active bigint not null default 0,
  completed bigint not null default 0,
  retryable bigint not null default 0,
  cancelled bigint not null default 0,
  discarded bigint not null default 0
) with (fillfactor = 70);

alter table events add column job uuid;
