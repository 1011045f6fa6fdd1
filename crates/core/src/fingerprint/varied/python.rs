//! Failures of programs in Python: chains, groups, validators and clients.

use super::check;

#[test]
fn errors_of_python_meet_whichever_layer_reported_them() {
    check(FAILURES);
}

const FAILURES: &str = r##"
## django-integrity-slug: unique slug
### post.saved | django.db.utils.IntegrityError | 
duplicate key value violates unique constraint "blog_post_slug_key"
DETAIL:  Key (slug)=(hello) already exists.
| Traceback (most recent call last):
|   File "/usr/local/lib/python3.12/site-packages/django/db/backends/utils.py", line 105, in _execute
|     return self.cursor.execute(sql, params)
| psycopg.errors.UniqueViolation: duplicate key value violates unique constraint "blog_post_slug_key"
| DETAIL:  Key (slug)=(hello) already exists.
| 
| The above exception was the direct cause of the following exception:
| 
| Traceback (most recent call last):
|   File "/app/blog/tasks.py", line 20, in save_post
|     post.save()
|   File "/usr/local/lib/python3.12/site-packages/django/db/models/base.py", line 822, in save
|     self.save_base(
| django.db.utils.IntegrityError: duplicate key value violates unique constraint "blog_post_slug_key"
| DETAIL:  Key (slug)=(hello) already exists.
### post.saved | IntegrityError | 
duplicate key value violates unique constraint "blog_post_slug_key"
DETAIL:  Key (slug)=(bye) already exists.
| Traceback (most recent call last):
|   File "/app/blog/tasks.py", line 22, in save_post
|     post.save()
|   File "/usr/local/lib/python3.12/site-packages/django/db/models/base.py", line 822, in save
|     self.save_base(
| django.db.utils.IntegrityError: duplicate key value violates unique constraint "blog_post_slug_key"
| DETAIL:  Key (slug)=(bye) already exists.
### post.saved | psycopg.errors.UniqueViolation | 23505
duplicate key value violates unique constraint "blog_post_slug_key"
| Traceback (most recent call last):
|   File "/app/blog/tasks.py", line 22, in save_post
|     post.save()
|   File "/usr/local/lib/python3.12/site-packages/psycopg/cursor.py", line 97, in execute
|     raise ex.with_traceback(None)
| psycopg.errors.UniqueViolation: duplicate key value violates unique constraint "blog_post_slug_key"
## django-fk-author: foreign key
### post.saved | IntegrityError | 
insert or update on table "blog_post" violates foreign key constraint "blog_post_author_id_fk"
DETAIL:  Key (author_id)=(77) is not present in table "blog_author".
| Traceback (most recent call last):
|   File "/app/blog/tasks.py", line 22, in save_post
|     post.save()
|   File "/usr/local/lib/python3.12/site-packages/django/db/models/base.py", line 822, in save
|     self.save_base(
| django.db.utils.IntegrityError: insert or update on table "blog_post" violates foreign key constraint "blog_post_author_id_fk"
## httpx-read-timeout: weather
### forecast.fetched | httpx.ReadTimeout | 
The read operation timed out
| Traceback (most recent call last):
|   File "/usr/local/lib/python3.12/site-packages/httpcore/_backends/sync.py", line 128, in read
|     return self._sock.recv(max_bytes)
| TimeoutError: The read operation timed out
| 
| The above exception was the direct cause of the following exception:
| 
| Traceback (most recent call last):
|   File "/usr/local/lib/python3.12/site-packages/httpx/_transports/default.py", line 69, in map_httpcore_exceptions
|     yield
| httpcore.ReadTimeout: The read operation timed out
| 
| The above exception was the direct cause of the following exception:
| 
| Traceback (most recent call last):
|   File "/app/weather/client.py", line 30, in fetch
|     r = self.http.get(url)
|   File "/usr/local/lib/python3.12/site-packages/httpx/_client.py", line 1054, in get
|     return self.request(
| httpx.ReadTimeout: The read operation timed out
### forecast.fetched | ReadTimeout | 
The read operation timed out
| Traceback (most recent call last):
|   File "/app/weather/client.py", line 33, in fetch
|     r = self.http.get(url)
|   File "/usr/local/lib/python3.12/site-packages/httpx/_client.py", line 1054, in get
|     return self.request(
| httpx.ReadTimeout: The read operation timed out
### forecast.fetched | weather.errors.ForecastFailed | 
forecast for station 10382 failed
| Traceback (most recent call last):
|   File "/app/weather/client.py", line 33, in fetch
|     r = self.http.get(url)
|   File "/usr/local/lib/python3.12/site-packages/httpx/_client.py", line 1054, in get
|     return self.request(
| httpx.ReadTimeout: The read operation timed out
| 
| During handling of the above exception, another exception occurred:
| 
| Traceback (most recent call last):
|   File "/app/weather/tasks.py", line 12, in forecast
|     client.fetch(station)
|   File "/app/weather/client.py", line 36, in fetch
|     raise ForecastFailed(f"forecast for station {station} failed")
| weather.errors.ForecastFailed: forecast for station 10382 failed
## httpx-500: same call
### forecast.fetched | httpx.HTTPStatusError | 
Server error '500 Internal Server Error' for url 'https://weather.example/v2/stations/10382'
For more information check: https://developer.mozilla.org/en-US/docs/Web/HTTP/Status/500
| Traceback (most recent call last):
|   File "/app/weather/client.py", line 34, in fetch
|     r.raise_for_status()
|   File "/usr/local/lib/python3.12/site-packages/httpx/_models.py", line 763, in raise_for_status
|     raise HTTPStatusError(message, request=request, response=self)
| httpx.HTTPStatusError: Server error '500 Internal Server Error' for url 'https://weather.example/v2/stations/10382'
| For more information check: https://developer.mozilla.org/en-US/docs/Web/HTTP/Status/500
### forecast.fetched | requests.exceptions.HTTPError | 
500 Server Error: Internal Server Error for url: https://weather.example/v2/stations/10777
| Traceback (most recent call last):
|   File "/app/weather/client.py", line 34, in fetch
|     r.raise_for_status()
|   File "/usr/local/lib/python3.12/site-packages/requests/models.py", line 1021, in raise_for_status
|     raise HTTPError(http_error_msg, response=self)
| requests.exceptions.HTTPError: 500 Server Error: Internal Server Error for url: https://weather.example/v2/stations/10777
## pydantic-missing: field
### lead.created | pydantic_core._pydantic_core.ValidationError | 
1 validation error for Lead
email
  Field required [type=missing, input_value={'name': 'x'}, input_type=dict]
    For further information visit https://errors.pydantic.dev/2.7/v/missing
| Traceback (most recent call last):
|   File "/app/leads/models.py", line 14, in parse
|     return Lead.model_validate(data)
|   File "/usr/local/lib/python3.12/site-packages/pydantic/main.py", line 551, in model_validate
|     return cls.__pydantic_validator__.validate_python(
| pydantic_core._pydantic_core.ValidationError: 1 validation error for Lead
| email
|   Field required [type=missing, input_value={'name': 'x'}, input_type=dict]
|     For further information visit https://errors.pydantic.dev/2.7/v/missing
### lead.created | ValidationError | 
1 validation error for Lead
email
  Field required [type=missing, input_value={'name': 'Bob', 'src': 'web'}, input_type=dict]
    For further information visit https://errors.pydantic.dev/2.11/v/missing
| Traceback (most recent call last):
|   File "/app/leads/models.py", line 15, in parse
|     return Lead.model_validate(data)
| pydantic_core._pydantic_core.ValidationError: 1 validation error for Lead
| email
|   Field required [type=missing, input_value={'name': 'Bob', 'src': 'web'}, input_type=dict]
|     For further information visit https://errors.pydantic.dev/2.11/v/missing
## pydantic-phone: other field
### lead.created | ValidationError | 
1 validation error for Lead
phone
  Input should be a valid string [type=string_type, input_value=4512, input_type=int]
| Traceback (most recent call last):
|   File "/app/leads/models.py", line 15, in parse
|     return Lead.model_validate(data)
| pydantic_core._pydantic_core.ValidationError: 1 validation error for Lead
| phone
|   Input should be a valid string [type=string_type, input_value=4512, input_type=int]
## sqs-throttle: boto
### digest.sent | botocore.errorfactory.ThrottlingException | ThrottlingException
An error occurred (ThrottlingException) when calling the SendEmail operation (reached max retries: 4): Rate exceeded
| Traceback (most recent call last):
|   File "/app/digest/mail.py", line 8, in send
|     ses.send_email(**m)
|   File "/usr/local/lib/python3.12/site-packages/botocore/client.py", line 569, in _api_call
|     return self._make_api_call(operation_name, kwargs)
| botocore.errorfactory.ThrottlingException: An error occurred (ThrottlingException) when calling the SendEmail operation (reached max retries: 4): Rate exceeded
### digest.sent | botocore.exceptions.ClientError | Throttling
An error occurred (Throttling) when calling the SendEmail operation: Maximum sending rate exceeded.
| Traceback (most recent call last):
|   File "/app/digest/mail.py", line 8, in send
|     ses.send_email(**m)
|   File "/usr/local/lib/python3.12/site-packages/botocore/client.py", line 569, in _api_call
|     return self._make_api_call(operation_name, kwargs)
| botocore.exceptions.ClientError: An error occurred (Throttling) when calling the SendEmail operation: Maximum sending rate exceeded.
## ses-rejected: other
### digest.sent | botocore.errorfactory.MessageRejected | MessageRejected
An error occurred (MessageRejected) when calling the SendEmail operation: Email address is not verified. The following identities failed the check in region EU-WEST-1: noreply@x.example
| Traceback (most recent call last):
|   File "/app/digest/mail.py", line 8, in send
|     ses.send_email(**m)
|   File "/usr/local/lib/python3.12/site-packages/botocore/client.py", line 569, in _api_call
|     return self._make_api_call(operation_name, kwargs)
| botocore.errorfactory.MessageRejected: An error occurred (MessageRejected) when calling the SendEmail operation: Email address is not verified. The following identities failed the check in region EU-WEST-1: noreply@x.example
## key-error: key
### csv.loaded | KeyError | 
'iban'
| Traceback (most recent call last):
|   File "/app/loader/rows.py", line 9, in to_payment
|     iban=row["iban"],
| KeyError: 'iban'
### csv.loaded | KeyError | 
KeyError: 'iban'
| Traceback (most recent call last):
|   File "/app/loader/cli.py", line 70, in main
|     to_payment(r)
|   File "/app/loader/rows.py", line 11, in to_payment
|     iban=row["iban"],
|          ~~~^^^^^^^^
| KeyError: 'iban'
### csv.loaded | loader.errors.BadRow | 
row 77 of bank-march.csv: 'iban'
| Traceback (most recent call last):
|   File "/app/loader/rows.py", line 11, in to_payment
|     iban=row["iban"],
|          ~~~^^^^^^^^
| KeyError: 'iban'
| 
| The above exception was the direct cause of the following exception:
| 
| Traceback (most recent call last):
|   File "/app/loader/cli.py", line 72, in main
|     raise BadRow(n, name, e) from e
| loader.errors.BadRow: row 77 of bank-march.csv: 'iban'
## decimal-error: other
### csv.loaded | decimal.InvalidOperation | 
[<class 'decimal.ConversionSyntax'>]
| Traceback (most recent call last):
|   File "/app/loader/rows.py", line 10, in to_payment
|     amount=Decimal(row["amount"]),
| decimal.InvalidOperation: [<class 'decimal.ConversionSyntax'>]
## aiohttp-dns: name
### feed.polled | aiohttp.client_exceptions.ClientConnectorDNSError | 
Cannot connect to host feeds.partner.example:443 ssl:default [Name or service not known]
| Traceback (most recent call last):
|   File "/app/feeds/poll.py", line 21, in poll
|     async with session.get(url) as r:
|   File "/usr/local/lib/python3.12/site-packages/aiohttp/connector.py", line 1301, in _create_direct_connection
|     raise ClientConnectorDNSError(req.connection_key, exc) from exc
| aiohttp.client_exceptions.ClientConnectorDNSError: Cannot connect to host feeds.partner.example:443 ssl:default [Name or service not known]
### feed.polled | socket.gaierror | -2
[Errno -2] Name or service not known
| Traceback (most recent call last):
|   File "/app/feeds/poll.py", line 21, in poll
|     async with session.get(url) as r:
|   File "/usr/local/lib/python3.12/socket.py", line 976, in getaddrinfo
|     for res in _socket.getaddrinfo(host, port, family, type, proto, flags):
| socket.gaierror: [Errno -2] Name or service not known
## rq-json: bad json
### hook.parsed | json.decoder.JSONDecodeError | 
Expecting value: line 1 column 1 (char 0)
| Traceback (most recent call last):
|   File "/srv/hooks/parse.py", line 12, in parse
|     return json.loads(body)
|            ^^^^^^^^^^^^^^^^
|   File "/usr/lib/python3.12/json/__init__.py", line 346, in loads
|     return _default_decoder.decode(s)
|   File "/usr/lib/python3.12/json/decoder.py", line 355, in raw_decode
|     raise JSONDecodeError("Expecting value", s, err.value) from None
| json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)
### hook.parsed | JSONDecodeError | 
Expecting value: line 3 column 14 (char 77)
| Traceback (most recent call last):
|   File "/srv/hooks/parse.py", line 14, in parse
|     return json.loads(body)
|   File "/usr/lib/python3.11/json/decoder.py", line 353, in raw_decode
|     raise JSONDecodeError("Expecting value", s, err.value) from None
| json.decoder.JSONDecodeError: Expecting value: line 3 column 14 (char 77)
### hook.parsed | requests.exceptions.JSONDecodeError | 
Expecting value: line 1 column 1 (char 0)
| Traceback (most recent call last):
|   File "/usr/lib/python3.12/site-packages/requests/models.py", line 974, in json
|     return complexjson.loads(self.text, **kwargs)
|   File "/usr/lib/python3.12/json/decoder.py", line 355, in raw_decode
|     raise JSONDecodeError("Expecting value", s, err.value) from None
| json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)
| 
| During handling of the above exception, another exception occurred:
| 
| Traceback (most recent call last):
|   File "/srv/hooks/parse.py", line 14, in parse
|     return response.json()
|   File "/usr/lib/python3.12/site-packages/requests/models.py", line 978, in json
|     raise RequestsJSONDecodeError(e.msg, e.doc, e.pos)
| requests.exceptions.JSONDecodeError: Expecting value: line 1 column 1 (char 0)
## rq-json-delim: other json
### hook.parsed | JSONDecodeError | 
Expecting ',' delimiter: line 1 column 40 (char 39)
| Traceback (most recent call last):
|   File "/srv/hooks/parse.py", line 14, in parse
|     return json.loads(body)
| json.decoder.JSONDecodeError: Expecting ',' delimiter: line 1 column 40 (char 39)
## pg-deadlock: asyncpg
### seat.held | asyncpg.exceptions.DeadlockDetectedError | 40P01
deadlock detected
DETAIL:  Process 77 waits for ShareLock on transaction 12; blocked by process 78.
| Traceback (most recent call last):
|   File "/srv/seats/hold.py", line 30, in hold
|     await conn.execute(SQL, seat)
|   File "/usr/lib/python3.12/site-packages/asyncpg/connection.py", line 352, in execute
|     _, status, _ = await self._execute(
| asyncpg.exceptions.DeadlockDetectedError: deadlock detected
| DETAIL:  Process 77 waits for ShareLock on transaction 12; blocked by process 78.
### seat.held | sqlalchemy.exc.DBAPIError | 
(sqlalchemy.dialects.postgresql.asyncpg.Error) <class 'asyncpg.exceptions.DeadlockDetectedError'>: deadlock detected
DETAIL:  Process 9 waits for ShareLock on transaction 3; blocked by process 8.
[SQL: UPDATE seats SET held=$1 WHERE id=$2]
| Traceback (most recent call last):
|   File "/srv/seats/hold.py", line 33, in hold
|     await session.execute(stmt)
|   File "/usr/lib/python3.12/site-packages/sqlalchemy/dialects/postgresql/asyncpg.py", line 789, in _handle_exception
|     raise translated_error from error
| sqlalchemy.exc.DBAPIError: (sqlalchemy.dialects.postgresql.asyncpg.Error) <class 'asyncpg.exceptions.DeadlockDetectedError'>: deadlock detected
| DETAIL:  Process 9 waits for ShareLock on transaction 3; blocked by process 8.
| [SQL: UPDATE seats SET held=$1 WHERE id=$2]
## celery-retry: max retries
### sms.sent | celery.exceptions.MaxRetriesExceededError | 
Can't retry sms.send[7f3a] args:('x',) kwargs:{}
| Traceback (most recent call last):
|   File "/srv/sms/gateway.py", line 18, in send
|     self.http.post(url, json=body, timeout=5)
|   File "/usr/lib/python3.12/site-packages/requests/adapters.py", line 713, in send
|     raise ReadTimeout(e, request=request)
| requests.exceptions.ReadTimeout: HTTPSConnectionPool(host='sms.example', port=443): Read timed out. (read timeout=5)
| 
| During handling of the above exception, another exception occurred:
| 
| Traceback (most recent call last):
|   File "/srv/sms/tasks.py", line 20, in send
|     raise self.retry(exc=exc)
| celery.exceptions.MaxRetriesExceededError: Can't retry sms.send[7f3a] args:('x',) kwargs:{}
### sms.sent | requests.exceptions.ReadTimeout | 
HTTPSConnectionPool(host='sms.example', port=443): Read timed out. (read timeout=5)
| Traceback (most recent call last):
|   File "/srv/sms/gateway.py", line 20, in send
|     self.http.post(url, json=body, timeout=5)
|   File "/usr/lib/python3.12/site-packages/requests/adapters.py", line 713, in send
|     raise ReadTimeout(e, request=request)
| requests.exceptions.ReadTimeout: HTTPSConnectionPool(host='sms.example', port=443): Read timed out. (read timeout=5)
## sms-500: http
### sms.sent | requests.exceptions.HTTPError | 
502 Server Error: Bad Gateway for url: https://sms.example/send
| Traceback (most recent call last):
|   File "/srv/sms/gateway.py", line 21, in send
|     r.raise_for_status()
|   File "/usr/lib/python3.12/site-packages/requests/models.py", line 1021, in raise_for_status
|     raise HTTPError(http_error_msg, response=self)
| requests.exceptions.HTTPError: 502 Server Error: Bad Gateway for url: https://sms.example/send
## type-err: None + int
### cart.summed | TypeError | 
unsupported operand type(s) for +: 'int' and 'NoneType'
| Traceback (most recent call last):
|   File "/srv/cart/total.py", line 9, in total
|     s = s + line.price
|         ~~^~~~~~~~~~~~
| TypeError: unsupported operand type(s) for +: 'int' and 'NoneType'
### cart.summed | TypeError | 
unsupported operand type(s) for +: 'int' and 'NoneType'
| Traceback (most recent call last):
|   File "/srv/cart/tasks.py", line 9, in run
|     total(cart)
|   File "/srv/cart/total.py", line 11, in total
|     s = s + line.price
| TypeError: unsupported operand type(s) for +: 'int' and 'NoneType'
## type-err-str: str
### cart.summed | TypeError | 
unsupported operand type(s) for +: 'int' and 'str'
| Traceback (most recent call last):
|   File "/srv/cart/total.py", line 11, in total
|     s = s + line.price
| TypeError: unsupported operand type(s) for +: 'int' and 'str'
"##;
