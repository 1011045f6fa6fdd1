-- What runs did minute by minute: letters that were sent, and those whose outcome was known, good or bad. A single retry
-- of a job has no line.
create table run_minutes (
  redrive blob not null references redrives (id) on delete cascade,
  minute integer not null,
  sent integer not null,
  good integer not null,
  bad integer not null,
  primary key (redrive, minute)
) without rowid;
insert into run_minutes (redrive, minute, sent, good, bad)
select t.redrive, t.minute, sum(t.sent), sum(t.good), sum(t.bad)
  from (select redrive, coalesce(sent_at, outcome_at) / 60000 as minute, 1 as sent, 0 as good, 0 as bad
          from redrive_letters
         where outcome in ('sent', 'unknown', 'succeeded', 'assumed', 'ended', 'failed', 'relapsed')
         union all
        select redrive, outcome_at / 60000, 0, outcome in ('succeeded', 'assumed', 'ended'),
               outcome in ('failed', 'relapsed')
          from redrive_letters
         where outcome in ('succeeded', 'assumed', 'ended', 'failed', 'relapsed')) t
  join redrives r on r.id = t.redrive and (r.kind <> 'single' or r.plan is not null)
 where t.minute is not null
 group by t.redrive, t.minute;
