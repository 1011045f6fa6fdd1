-- An application that writes an order and its event together: either both are there, or neither is.
-- Run it with: psql postgres://…/shop -f examples/outbox.sql    (the outbox is made by `lazaret outbox init shop`)
create table if not exists orders (
  id text primary key,
  total numeric not null
);

begin;
insert into orders (id, total) values ('o-4711', 12.50);
insert into outbox (event_type, aggregate_type, aggregate_id, payload)
values ('OrderCreated', 'order', 'o-4711', '{"order": "o-4711", "total": 12.50}');
commit;
