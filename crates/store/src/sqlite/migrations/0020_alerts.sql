-- Alerts: one row for what each is about. What people and receivers are told is made from these.
create table alerts (
  id blob primary key check (length(id) = 16),
  kind text not null,
  scope text not null,
  subject text not null,
  rule text not null,
  severity text not null,
  state text not null,
  since integer not null,
  fired_at integer,
  clear_since integer,
  resolved_at integer,
  -- In thousandths.
  value integer not null,
  count integer not null,
  -- Occurrences by minute, as JSON.
  recent text not null,
  summary text not null,
  labels text not null,
  sample blob,
  incident blob,
  flaps integer not null,
  acked_by text,
  acked_at integer,
  ack_reason text,
  updated_at integer not null
) without rowid;
create index alerts_by_state on alerts (state, updated_at, id);

-- What each receiver was notified of last, by group.
create table alert_groups (
  key text primary key,
  receiver text not null,
  notified_at integer not null,
  members text not null
) without rowid;

create table silences (
  id blob primary key check (length(id) = 16),
  matchers text not null,
  reason text not null,
  created_by text not null,
  created_at integer not null,
  starts_at integer not null,
  ends_at integer not null
) without rowid;
create index silences_by_end on silences (ends_at, id);

-- Written in the commit in which an alert fires, so that a crash loses none.
create table notifications (
  id blob primary key check (length(id) = 16),
  receiver text not null,
  payload text not null,
  state text not null,
  attempts integer not null,
  created_at integer not null,
  next_at integer not null,
  claimed_until integer,
  ended_at integer,
  error text
) without rowid;
create index notifications_by_state on notifications (state, next_at, id);

-- How far the evaluation has come; one row at most.
create table alert_progress (
  one integer primary key check (one = 1),
  revision integer not null,
  events integer not null,
  letters integer not null
);
