"""A service that knows nothing of Lazaret, written with nats-py: `nats_client.py publish|fail|receive URL`."""

import asyncio
import base64
import json
import sys

import nats
from nats.errors import TimeoutError

STREAM, CONSUMER, SUBJECT = "ORDERS", "worker", "orders.größe.neu"

# nats-py has one value per name; names that differ in case are different ones.
HEADERS = {
    "Nats-Msg-Id": "python-7",
    "Content-Type": "application/octet-stream",
    "Zutat": "Grüße, 世界 🍞",
    "trace": "lower",
    "Trace": "upper",
    "Empty": "",
    "Colons": "a: b: c=%41",
}
BODY = bytes(range(256)) + b"\r\n\r\n\x00"


def report(subject, headers, body):
    listed = {name: [value] for name, value in headers.items()}
    print(json.dumps({"subject": subject, "headers": listed, "body": base64.b64encode(body).decode()}))


async def publish(jetstream, _):
    await jetstream.publish(SUBJECT, BODY, headers=HEADERS)
    report(SUBJECT, HEADERS, BODY)


async def fail(_, worker):
    """Refuses whatever is delivered until nothing is delivered any more."""
    deliveries, timeout = 0, 30
    while True:
        try:
            messages = await worker.fetch(1, timeout=timeout)
        except TimeoutError:
            break
        await messages[0].nak()
        deliveries, timeout = deliveries + 1, 2
    print(json.dumps({"deliveries": deliveries}))


async def receive(_, worker):
    [message] = await worker.fetch(1, timeout=30)
    await message.ack_sync()
    report(message.subject, message.headers, message.data)


async def main():
    mode, url = sys.argv[1:]
    client = await nats.connect(url)
    jetstream = client.jetstream()
    worker = await jetstream.pull_subscribe_bind(consumer=CONSUMER, stream=STREAM)
    await {"publish": publish, "fail": fail, "receive": receive}[mode](jetstream, worker)
    await client.close()


asyncio.run(main())
