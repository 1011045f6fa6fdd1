-- Who takes an expired claim over counts it here: the holder before can neither send nor settle any more.
alter table claims add column renewals integer not null default 0;

-- The number of the last claim of a life, no longer of the next send. What was claimed before counts as claimed once.
insert into send_numbers (letter, life, number)
select distinct letter, life, 1
  from redrive_letters
 where idempotency_key is not null
on conflict (letter, life) do nothing;
