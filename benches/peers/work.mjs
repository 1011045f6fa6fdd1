// The jobs that every peer gets, and the clock.

export const TYPES = ['email.send', 'order.sync']
const ERRORS = ['TimeoutError', 'ConnectionError', 'ValidationError', 'RateLimitError']
const NOTE = 'order customer delivery invoice '.repeat(30).slice(0, 930)
const FRAMES = Array.from({ length: 20 }, (_, k) => `    at step${k} (/srv/app/src/handlers/module_${k}.js:${100 + k}:17)`)

/** Job number i: its type, and about 1 KiB of arguments. */
export const jobOf = i => ({ type: TYPES[(i >> 1) % 2], args: { seq: i, note: NOTE } })

/** The error that job number i fails with: a message and 20 frames. */
export function errorOf (i) {
  const name = ERRORS[(i >> 2) % 4]
  const error = new Error(`${name}: upstream answered 503 for item ${i}`)
  error.name = name
  error.stack = [`${name}: ${error.message}`, ...FRAMES].join('\n')
  return error
}

export const range = n => Array.from({ length: n }, (_, i) => i)

export const chunked = (items, size) =>
  range(Math.ceil(items.length / size)).map(at => items.slice(at * size, (at + 1) * size))

/** Runs `act` for every number below `count`, so many at a time. */
export async function inFlight (count, atOnce, act) {
  let next = 0
  const lane = async () => { while (next < count) await act(next++) }
  await Promise.all(range(Math.min(atOnce, count)).map(lane))
}

/** Waits until `done` says so. */
export async function until (done, everyMs = 5, withinMs = 300_000) {
  const end = performance.now() + withinMs
  while (!await done()) {
    if (performance.now() > end) throw new Error('it did not come to its end in time')
    await new Promise(resolve => setTimeout(resolve, everyMs))
  }
}

/** Seconds that something takes. */
export async function seconds (act) {
  const began = performance.now()
  await act()
  return (performance.now() - began) / 1000
}
