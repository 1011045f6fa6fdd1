// The events of the server. However many tabs are open, one of them listens and tells the others: a browser opens no
// more than six connections to a server, and a stream holds one for good.

const AGAIN_MS = 3000;
// The server says every 15 seconds that it is there; after three times nothing, it is not.
const SILENCE_MS = 45000;

const tabs = new BroadcastChannel("lazaret-events");
const listeners = { event: [], state: [] };
let place = null;
let state = "there";

/** Calls back with the kind of every event; `null` says that some may have been missed. */
export const onEvent = (listener) => listeners.event.push(listener);

/** Calls back when the stream comes or goes: with `there`, `away`, `full` (the server lets no more listen) or `signed out`. */
export const onState = (listener) => listeners.state.push(listener);

function take(message) {
  if (message.place) place = message.place;
  if ("kind" in message) listeners.event.forEach((listener) => listener(message.kind));
  if (message.state && message.state !== state) {
    state = message.state;
    listeners.state.forEach((listener) => listener(state));
  }
}

function tell(message) {
  take(message);
  tabs.postMessage(message);
}

tabs.addEventListener("message", (event) => take(event.data));

/** Reads until the stream ends. Blocks are lines, and of those the id and the kind are all that pages need. */
async function read(body, heard) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    heard();
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      if (line.startsWith("id: ")) place = line.slice(4);
      if (line.startsWith("event: ")) {
        const kind = line.slice(7);
        tell({ kind: kind === "lost" || kind === "dropped" ? null : kind, place });
      }
    }
  }
}

async function follow(stop) {
  while (!stop.aborted) {
    const cut = new AbortController();
    const end = () => cut.abort();
    let silence = setTimeout(end, SILENCE_MS);
    const heard = () => {
      clearTimeout(silence);
      silence = setTimeout(end, SILENCE_MS);
    };
    stop.addEventListener("abort", end);
    let now = "away";
    try {
      const headers = { accept: "text/event-stream", ...(place !== null && { "last-event-id": place }) };
      const answer = await fetch("/api/v1/events", { headers, signal: cut.signal, cache: "no-store" });
      if (answer.ok) {
        document.documentElement.dataset.listening = "";
        // Something may have happened between the making of the page and this moment.
        tell({ state: "there", kind: null });
        await read(answer.body, heard);
      } else if (answer.status === 401) now = "signed out";
      else if (answer.status === 503) now = "full";
    } catch {
      // Away, cut or refused: all of it is told below.
    }
    clearTimeout(silence);
    stop.removeEventListener("abort", end);
    if (stop.aborted) return;
    tell({ state: now });
    await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
  }
}

/** Begins to listen, once somebody wants to hear. */
export function listen() {
  if (navigator.locks) {
    navigator.locks.request("lazaret-events", () => follow(new AbortController().signal));
    return;
  }
  // Without locks every tab listens for itself, and only while it is looked at.
  let stop = null;
  const look = () => {
    stop?.abort();
    stop = document.hidden ? null : new AbortController();
    if (stop) follow(stop.signal);
  };
  document.addEventListener("visibilitychange", look);
  look();
}
