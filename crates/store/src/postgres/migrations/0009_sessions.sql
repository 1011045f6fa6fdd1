-- Who is signed in. Of the cookie and of the token behind it only hashes are kept.
create table sessions (
  hash bytea primary key check (length(hash) = 32),
  token bytea not null references tokens (hash),
  created_at timestamptz(3) not null,
  expires_at timestamptz(3) not null
);
create index sessions_by_token on sessions (token, created_at, hash);
create index sessions_by_end on sessions (expires_at, hash);
