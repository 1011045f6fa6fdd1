-- What a job was enqueued with, written once; its row holds what changes. A job whose row was last written before has both
-- in its row.
create table job_requests (
  job integer primary key references jobs (job) on delete cascade,
  request blob not null
);
