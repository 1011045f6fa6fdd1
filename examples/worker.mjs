// A worker for Lazaret in JavaScript, nothing to install: node worker.mjs [URL [QUEUE...]]. SIGTERM: finish, then end.
import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';

const [url = 'http://127.0.0.1:7070', ...named] = process.argv.slice(2);
const queues = named.length > 0 ? named : ['default'];
const worker_id = `${hostname()}-${process.pid}`;
const beatMs = 1000 * Number(process.env.BEAT_S ?? 5); // well below the 30 s for which a job is ours by default
const headers = { 'content-type': 'application/json' };
if (process.env.LAZARET_TOKEN) headers.authorization = `Bearer ${process.env.LAZARET_TOKEN}`;
const held = new Set();
let [state, ending] = ['running', false];
process.on('SIGTERM', () => { ending = true; });

const handlers = {
  'demo.greet': (job) => ({ greeting: `hello ${job.args[0]}` }), // becomes the job's result
  'demo.fail': (job) => { throw new RangeError(`no ${job.args[0]} in stock`); }, // tried again, at last a dead letter
  'demo.die': (job) => (job.attempt > 1 ? { survived: true } : process.exit(1)), // another worker gets it in time
  'demo.wait': (job) => sleep(1000 * job.args[0]), // never blocks: the heartbeats have to go on
};

async function call(path, body) {
  for (const pauseMs of [1000, 2000, 4000, 8000, 16000, 0]) { // patience for a server that restarts or is busy
    const request = { method: 'POST', headers, body: JSON.stringify(body), signal: AbortSignal.timeout(30000) };
    const answer = await fetch(`${url}/ojs/v1/workers/${path}`, request).catch((error) => error);
    const said = answer instanceof Response ? await answer.json().catch(() => ({})) : {};
    if (answer.ok) return said;
    console.log(`${path}: ${said.error?.message ?? answer.message ?? answer.status}`);
    if (![429, 503].includes(answer.status ?? 503)) break; // a job that is not ours any more, most likely
    await sleep(pauseMs);
  }
  return {};
}

// Keeps the jobs we hold ours, and learns whether to go on: 'quiet' is to fetch nothing, 'terminate' to end.
async function beat() {
  const { state: wished = state } = await call('heartbeat', { worker_id, active_jobs: [...held] });
  if (wished !== state) console.log('state', state = wished);
  ending ||= state === 'terminate'; // there is no way back from it
  setTimeout(beat, beatMs).unref(); // does not keep a worker alive that has ended its work
}

async function work(job) {
  console.log(`began ${job.id}`);
  held.add(job.id);
  const [word, path, said] = await (async () => JSON.stringify(await handlers[job.type](job)) ?? 'null')().then(
    (json) => ['done', 'ack', { result: JSON.parse(json) }], // what is no JSON is a failure of the handler
    (e) => ['failed', 'nack', { error: { type: e?.name, message: String(e?.message ?? e), backtrace: e?.stack?.split('\n') } }],
  );
  const { state: became = 'not ours any more' } = await call(path, { job_id: job.id, worker_id, ...said });
  held.delete(job.id);
  console.log(`${word} ${job.id} ${became}`);
}

beat();
while (!ending) {
  const { jobs = [] } = state === 'running' ? await call('fetch', { queues, worker_id }) : {};
  for (const job of jobs) await work(job);
  if (jobs.length === 0) await sleep(200);
}
