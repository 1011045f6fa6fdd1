-- Alerts: one row for what each is about. What people and receivers are told is made from these.
create table alerts (
  id uuid primary key,
  kind text collate "C" not null,
  scope text collate "C" not null,
  subject text collate "C" not null,
  rule text collate "C" not null,
  severity text collate "C" not null,
  state text collate "C" not null,
  since timestamptz(3) not null,
  fired_at timestamptz(3),
  clear_since timestamptz(3),
  resolved_at timestamptz(3),
  -- In thousandths.
  value bigint not null,
  count bigint not null,
  -- Occurrences by minute, as JSON.
  recent text not null,
  summary text not null,
  labels text not null,
  sample uuid,
  incident uuid,
  flaps bigint not null,
  acked_by text,
  acked_at timestamptz(3),
  ack_reason text,
  updated_at timestamptz(3) not null
);
create index alerts_by_state on alerts (state, updated_at, id);

-- What each receiver was notified of last, by group.
create table alert_groups (
  key text collate "C" primary key,
  receiver text collate "C" not null,
  notified_at timestamptz(3) not null,
  members text not null
);

create table silences (
  id uuid primary key,
  matchers text not null,
  reason text not null,
  created_by text not null,
  created_at timestamptz(3) not null,
  starts_at timestamptz(3) not null,
  ends_at timestamptz(3) not null
);
create index silences_by_end on silences (ends_at, id);

-- Written in the commit in which an alert fires, so that a crash loses none.
create table notifications (
  id uuid primary key,
  receiver text collate "C" not null,
  payload text not null,
  state text collate "C" not null,
  attempts bigint not null,
  created_at timestamptz(3) not null,
  next_at timestamptz(3) not null,
  claimed_until timestamptz(3),
  ended_at timestamptz(3),
  error text
);
create index notifications_by_state on notifications (state, next_at, id);

-- How far the evaluation has come; one row at most.
create table alert_progress (
  one integer primary key check (one = 1),
  revision bigint not null,
  events bigint not null,
  letters bigint not null
);
