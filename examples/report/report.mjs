// Reports a dead letter to Lazaret: Node 18 or newer, nothing to install.
import { setTimeout as sleep } from "node:timers/promises";

const URL = process.env.LAZARET_URL ?? "http://127.0.0.1:7070";
const TOKEN = process.env.LAZARET_TOKEN; // role producer; not needed until the first token exists

// Returns the server's answer. Safe to repeat: a report that was stored before is a duplicate.
async function report(entry, source = "report") {
  const request = {
    method: "POST",
    headers: { "Content-Type": "application/json", ...(TOKEN && { Authorization: `Bearer ${TOKEN}` }) },
    body: JSON.stringify(entry),
  };
  for (const pauseS of [1, 2, 4, 8, 16, null]) {
    let waitS = pauseS;
    try {
      const signal = AbortSignal.timeout(30_000);
      const response = await fetch(`${URL}/api/v1/dead-letters?source=${source}`, { ...request, signal });
      const answer = await response.text();
      if (response.ok) return answer;
      if (pauseS === null || ![408, 429, 502, 503, 504].includes(response.status)) {
        throw new RangeError(`report refused: ${response.status} ${answer}`);
      }
      waitS = Math.max(pauseS, Number(response.headers.get("retry-after") ?? 0));
    } catch (error) {
      // Anything but a refusal: connection refused, reset or timed out.
      if (pauseS === null || error instanceof RangeError) throw error;
    }
    await sleep(waitS * 1000);
  }
}

function handle(event) {
  throw new TypeError(`invoice ${event.payload.invoice} has no currency`);
}

const event = { eventId: "evt-node-1", pattern: "invoice.created", payload: { invoice: 4711 } };
try {
  handle(event);
} catch (error) { // after the last retry of your own
  try {
    console.log(await report({
      eventId: event.eventId,
      subscriberId: "billing",
      originalEvent: event,
      error: { type: error.name, message: error.message, stackTrace: error.stack },
      retryCount: 3,
      maxRetries: 3,
    }));
  } catch (refused) {
    console.error(String(refused));
    process.exitCode = 1;
  }
}
