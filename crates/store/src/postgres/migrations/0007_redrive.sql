-- What people found out about an incident. A revision or a fix is never changed; the last one holds.
alter table incidents
  add column assignee text,
  add column category text collate "C",
  -- From when on the fix in force holds; null once the incident came back and was diagnosed anew.
  add column fix_at timestamptz(3),
  add column fix_kind text collate "C",
  add column redriven_at timestamptz(3);

create table rcas (
  incident uuid not null references incidents (id),
  revision integer not null check (revision >= 1),
  category text collate "C" not null,
  root_cause text not null,
  remediation text not null,
  author text not null,
  at timestamptz(3) not null,
  primary key (incident, revision)
);

create table fixes (
  incident uuid not null references incidents (id),
  number integer not null check (number >= 1),
  kind text collate "C" not null check (kind in ('deployed', 'decision')),
  reference text not null,
  fixed_at timestamptz(3) not null,
  author text not null,
  at timestamptz(3) not null,
  revision integer not null,
  primary key (incident, number)
);

-- Events are forgotten after a while; this is not. Whoever adds to it holds the incident's row.
create table incident_timeline (
  incident uuid not null references incidents (id),
  ordinal bigint not null,
  at timestamptz(3) not null,
  kind text collate "C" not null,
  author text,
  text text,
  primary key (incident, ordinal)
);

-- Every way of putting letters back, from one retry to a governed run. The rows are the progress. Whoever changes one of
-- a redrive's letters holds its row, which is changed as often.
create table redrives (
  id uuid primary key,
  kind text collate "C" not null check (kind in ('single', 'bulk', 'rule', 'plan')),
  state text collate "C" not null check (state in ('planning', 'planned', 'canary', 'running', 'paused', 'verifying',
    'done', 'stopped', 'cancelled')),
  filter text not null,
  actor text not null,
  role text not null,
  request text,
  reason text,
  break_glass text,
  edit integer,
  rule text,
  plan text,
  why text,
  -- The options; no pace is no limit.
  pace bigint,
  batch_size bigint not null,
  concurrency bigint not null,
  order_by text collate "C" not null,
  direction text collate "C" not null,
  canary bigint not null,
  canary_ms bigint not null,
  canary_assumed boolean not null,
  stop_percent bigint not null,
  stop_of bigint not null,
  quiet_ms bigint not null,
  -- How far the list has been taken down, and whether that is all of it.
  frozen_died_at timestamptz(3),
  frozen_id uuid,
  frozen boolean not null default false,
  total bigint not null default 0,
  refused bigint not null default 0,
  -- How many letters stand where, kept as they move.
  waiting bigint not null default 0,
  out bigint not null default 0,
  sent bigint not null default 0,
  unknown bigint not null default 0,
  succeeded bigint not null default 0,
  assumed bigint not null default 0,
  ended bigint not null default 0,
  failed bigint not null default 0,
  relapsed bigint not null default 0,
  skipped bigint not null default 0,
  lane_blocked bigint not null default 0,
  cancelled bigint not null default 0,
  canary_passed boolean not null default false,
  -- The last outcomes, newest last: + or -.
  recent text not null default '',
  -- The bucket that all instances draw from: up to when its tokens are spent, in microseconds.
  spent_until_us bigint,
  opened_at timestamptz(3) not null,
  launched_at timestamptz(3),
  -- The last time that somebody let it go on.
  resumed_at timestamptz(3),
  -- When nothing of it was under way any more.
  finished_at timestamptz(3),
  updated_at timestamptz(3) not null
) with (fillfactor = 50);
-- A single retry of a job needs no looking after: it ends with its letter.
create index redrives_unfinished on redrives (launched_at, id)
  where launched_at is not null and finished_at is null and (kind <> 'single' or plan is not null);
create index redrives_by_rule on redrives (rule, opened_at) where rule is not null;
create index redrives_unlaunched on redrives (opened_at, id) where state in ('planning', 'planned');

-- Letters of one list that are judged together.
create table redrive_groups (
  redrive uuid not null references redrives (id) on delete cascade,
  number integer not null,
  incident uuid not null,
  source text collate "C" not null,
  subscriber text collate "C",
  died text collate "C" not null check (died in ('none', 'before', 'after')),
  letters bigint not null,
  -- freely or governed with the destination's name, a refusal of the gate, or no_way_back with the reason.
  verdict text collate "C",
  detail text,
  primary key (redrive, number)
);
create index redrive_groups_by_incident on redrive_groups (incident, redrive);

create table redrive_letters (
  redrive uuid not null references redrives (id) on delete cascade,
  ordinal bigint not null,
  letter uuid not null,
  life integer not null,
  grp integer not null,
  -- The order key it keeps to, and whether it is the first of its lane that has not come to its end.
  lane text collate "C",
  head boolean not null,
  rank bigint not null,
  outcome text collate "C" not null check (outcome in ('refused', 'waiting', 'out', 'sent', 'unknown', 'succeeded',
    'assumed', 'ended', 'failed', 'relapsed', 'skipped', 'lane_blocked', 'cancelled')),
  canary boolean not null default false,
  evidence text,
  idempotency_key text,
  sent_at timestamptz(3),
  outcome_at timestamptz(3),
  primary key (redrive, ordinal)
) with (fillfactor = 80);
-- Not unique: a rule may put a letter back several times a day.
create index redrive_letters_by_letter on redrive_letters (letter, redrive, life);
create index redrive_letters_next on redrive_letters (redrive, rank, ordinal) where outcome = 'waiting' and head;
create index redrive_letters_in_lane on redrive_letters (redrive, lane, ordinal) where lane is not null;
create index redrive_letters_sent on redrive_letters (redrive, sent_at) where outcome = 'sent';
create index redrive_letters_open on redrive_letters (redrive, outcome, ordinal)
  where outcome in ('waiting', 'relapsed', 'sent');
create index redrive_letters_canaries on redrive_letters (redrive, outcome) where canary;

-- Which number the next idempotency key of a life has: it grows after a definite failure only.
create table send_numbers (
  letter uuid not null,
  life integer not null,
  number integer not null,
  primary key (letter, life)
);

-- At most one letter of an order key is out at a time, whatever run it belongs to. Not unique: whoever takes letters
-- looks here under a lock, and a retry by hand goes without lanes.
alter table claims add column lane text collate "C";
create index claims_by_lane on claims (lane) where lane is not null;
create index claims_by_lease on claims (lease_until) where lease_until is not null;
create index claims_by_run on claims (run);

-- Letters as people changed them before sending; the original stays as it is.
create table edits (
  letter uuid not null,
  number integer not null check (number >= 1),
  life integer not null,
  body bytea not null,
  content_type text not null,
  headers text not null,
  destination text,
  author text not null,
  reason text,
  at timestamptz(3) not null,
  primary key (letter, number)
);
alter table edits alter column body set storage external;

-- The chain: each link is made of the entry and the link before it, with a key that is not in here.
alter table audit
  add column link bytea check (link is null or length(link) = 32),
  add column incident uuid,
  add column redrive uuid;
create index audit_unlinked on audit (position) where link is null;
