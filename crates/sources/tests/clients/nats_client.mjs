// A service that knows nothing of Lazaret, written with nats.js: `nats_client.mjs publish|fail|receive URL`.
// NATS_MODULES is the folder that has the client's packages.

import { createRequire } from "node:module";

const require = createRequire(`${process.env.NATS_MODULES}/`);
const { connect, headers } = require("@nats-io/transport-node");
const { jetstream } = require("@nats-io/jetstream");

const STREAM = "ORDERS";
const CONSUMER = "worker";
const SUBJECT = "orders.größe.neu";

const HEADERS = [
  ["Nats-Msg-Id", "javascript-7"],
  ["Content-Type", "application/octet-stream"],
  ["Tag", "one"],
  ["Tag", "two"],
  ["Tag", "one"],
  ["Zutat", "Grüße, 世界 🍞"],
  ["trace", "lower"],
  ["Trace", "upper"],
  ["Empty", ""],
  ["Colons", "a: b: c=%41"],
];
const BODY = Buffer.concat([Buffer.from(Array.from({ length: 256 }, (_, byte) => byte)), Buffer.from("\r\n\r\n\0")]);

function report(subject, headers, body) {
  const listed = Object.fromEntries(headers.keys().map((name) => [name, headers.values(name)]));
  console.log(JSON.stringify({ subject, headers: listed, body: Buffer.from(body).toString("base64") }));
}

async function publish(client) {
  const sent = headers();
  for (const [name, value] of HEADERS) sent.append(name, value);
  await client.publish(SUBJECT, BODY, { headers: sent });
  report(SUBJECT, sent, BODY);
}

// Refuses whatever is delivered until nothing is delivered any more.
async function fail(client) {
  const worker = await client.consumers.get(STREAM, CONSUMER);
  let deliveries = 0;
  for (;;) {
    const message = await worker.next({ expires: deliveries === 0 ? 30_000 : 2_000 });
    if (message === null) break;
    message.nak();
    deliveries += 1;
  }
  console.log(JSON.stringify({ deliveries }));
}

async function receive(client) {
  const worker = await client.consumers.get(STREAM, CONSUMER);
  const message = await worker.next({ expires: 30_000 });
  await message.ackAck();
  report(message.subject, message.headers, message.data);
}

const [mode, servers] = process.argv.slice(2);
const connection = await connect({ servers });
await { publish, fail, receive }[mode](jetstream(connection));
await connection.drain();
