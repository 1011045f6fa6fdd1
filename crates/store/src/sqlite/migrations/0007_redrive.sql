-- What people found out about an incident. A revision or a fix is never changed; the last one holds.
alter table incidents add column assignee text;
alter table incidents add column category text;
-- From when on the fix in force holds; null once the incident came back and was diagnosed anew.
alter table incidents add column fix_at integer;
alter table incidents add column fix_kind text;
alter table incidents add column redriven_at integer;

create table rcas (
  incident blob not null references incidents (id),
  revision integer not null check (revision >= 1),
  category text not null,
  root_cause text not null,
  remediation text not null,
  author text not null,
  at integer not null,
  primary key (incident, revision)
) without rowid;

create table fixes (
  incident blob not null references incidents (id),
  number integer not null check (number >= 1),
  kind text not null check (kind in ('deployed', 'decision')),
  reference text not null,
  fixed_at integer not null,
  author text not null,
  at integer not null,
  revision integer not null,
  primary key (incident, number)
) without rowid;

-- Events are forgotten after a while; this is not.
create table incident_timeline (
  incident blob not null references incidents (id),
  ordinal integer not null,
  at integer not null,
  kind text not null,
  author text,
  text text,
  primary key (incident, ordinal)
) without rowid;

-- Every way of putting letters back, from one retry to a governed run. The rows are the progress.
create table redrives (
  id blob primary key check (length(id) = 16),
  kind text not null check (kind in ('single', 'bulk', 'rule', 'plan')),
  state text not null check (state in ('planning', 'planned', 'canary', 'running', 'paused', 'verifying', 'done',
    'stopped', 'cancelled')),
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
  pace integer,
  batch_size integer not null,
  concurrency integer not null,
  order_by text not null,
  direction text not null,
  canary integer not null,
  canary_ms integer not null,
  canary_assumed integer not null check (canary_assumed in (0, 1)),
  stop_percent integer not null,
  stop_of integer not null,
  quiet_ms integer not null,
  -- How far the list has been taken down, and whether that is all of it.
  frozen_died_at integer,
  frozen_id blob,
  frozen integer not null default 0 check (frozen in (0, 1)),
  total integer not null default 0,
  refused integer not null default 0,
  -- How many letters stand where, kept as they move.
  waiting integer not null default 0,
  out integer not null default 0,
  sent integer not null default 0,
  unknown integer not null default 0,
  succeeded integer not null default 0,
  assumed integer not null default 0,
  ended integer not null default 0,
  failed integer not null default 0,
  relapsed integer not null default 0,
  skipped integer not null default 0,
  lane_blocked integer not null default 0,
  cancelled integer not null default 0,
  canary_passed integer not null default 0 check (canary_passed in (0, 1)),
  -- The last outcomes, newest last: + or -.
  recent text not null default '',
  -- The bucket that all instances draw from: up to when its tokens are spent, in microseconds.
  spent_until_us integer,
  opened_at integer not null,
  launched_at integer,
  -- The last time that somebody let it go on.
  resumed_at integer,
  -- When nothing of it was under way any more.
  finished_at integer,
  updated_at integer not null
) without rowid;
-- A single retry of a job needs no looking after: it ends with its letter.
create index redrives_unfinished on redrives (launched_at, id)
  where launched_at is not null and finished_at is null and (kind <> 'single' or plan is not null);
create index redrives_by_rule on redrives (rule, opened_at) where rule is not null;
create index redrives_unlaunched on redrives (opened_at, id) where state in ('planning', 'planned');

-- Letters of one list that are judged together.
create table redrive_groups (
  redrive blob not null references redrives (id) on delete cascade,
  number integer not null,
  incident blob not null,
  source text not null,
  subscriber text,
  died text not null check (died in ('none', 'before', 'after')),
  letters integer not null,
  -- freely or governed with the destination's name, a refusal of the gate, or no_way_back with the reason.
  verdict text,
  detail text,
  primary key (redrive, number)
) without rowid;
create index redrive_groups_by_incident on redrive_groups (incident, redrive);

create table redrive_letters (
  redrive blob not null references redrives (id) on delete cascade,
  ordinal integer not null,
  letter blob not null check (length(letter) = 16),
  life integer not null,
  grp integer not null,
  -- The order key it keeps to, and whether it is the first of its lane that has not come to its end.
  lane text,
  head integer not null check (head in (0, 1)),
  rank integer not null,
  outcome text not null check (outcome in ('refused', 'waiting', 'out', 'sent', 'unknown', 'succeeded', 'assumed',
    'ended', 'failed', 'relapsed', 'skipped', 'lane_blocked', 'cancelled')),
  canary integer not null default 0 check (canary in (0, 1)),
  evidence text,
  idempotency_key text,
  sent_at integer,
  outcome_at integer,
  primary key (redrive, ordinal)
) without rowid;
-- Not unique: a rule may put a letter back several times a day.
create index redrive_letters_by_letter on redrive_letters (letter, redrive, life);
create index redrive_letters_next on redrive_letters (redrive, rank, ordinal) where outcome = 'waiting' and head = 1;
create index redrive_letters_in_lane on redrive_letters (redrive, lane, ordinal) where lane is not null;
create index redrive_letters_open on redrive_letters (redrive, outcome, ordinal)
  where outcome in ('waiting', 'relapsed', 'sent');
create index redrive_letters_sent on redrive_letters (redrive, sent_at) where outcome = 'sent';
create index redrive_letters_canaries on redrive_letters (redrive, outcome) where canary = 1;

-- Which number the next idempotency key of a life has: it grows after a definite failure only.
create table send_numbers (
  letter blob not null check (length(letter) = 16),
  life integer not null,
  number integer not null,
  primary key (letter, life)
) without rowid;

-- At most one letter of an order key is out at a time, whatever run it belongs to.
alter table claims add column lane text;
create index claims_by_lane on claims (lane) where lane is not null;
create index claims_by_lease on claims (lease_until) where lease_until is not null;
create index claims_by_run on claims (run);

-- Letters as people changed them before sending; the original stays as it is.
create table edits (
  letter blob not null check (length(letter) = 16),
  number integer not null check (number >= 1),
  life integer not null,
  body blob not null,
  content_type text not null,
  headers text not null,
  destination text,
  author text not null,
  reason text,
  at integer not null,
  primary key (letter, number)
) without rowid;

-- The chain: each link is made of the entry and the link before it, with a key that is not in here.
alter table audit add column link blob check (link is null or length(link) = 32);
create index audit_unlinked on audit (position) where link is null;
alter table audit add column incident blob;
alter table audit add column redrive blob;
