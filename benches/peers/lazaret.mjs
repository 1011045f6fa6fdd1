// Lazaret by its Open Job Spec routes: one request per job, or `batch` jobs per request.

import http from 'node:http'
import { TYPES, chunked, errorOf, inFlight, jobOf, range } from './work.mjs'

export async function open ({ url, connections, batch = 1 }) {
  const { hostname, port } = new URL(url)
  const agent = new http.Agent({ keepAlive: true, maxSockets: connections + 8 })
  const call = (method, path, body) => new Promise((resolve, reject) => {
    const text = body === undefined ? '' : JSON.stringify(body)
    const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }
    const request = http.request({ agent, hostname, port, method, path, headers }, answer => {
      const parts = []
      answer.on('data', part => parts.push(part))
      answer.on('end', () => {
        const said = Buffer.concat(parts).toString()
        if (answer.statusCode >= 300) return reject(new Error(`${method} ${path}: ${answer.statusCode} ${said.slice(0, 300)}`))
        resolve(said ? JSON.parse(said) : undefined)
      })
    })
    request.on('error', reject)
    request.end(text)
  })
  const post = (path, body) => call('POST', `/ojs/v1/${path}`, body)

  const wire = i => {
    const { type, args } = jobOf(i)
    return { type, args: [args], options: { queue: 'bench', retry: { max_attempts: 1, on_exhaustion: 'dead_letter' } } }
  }
  const nack = job => {
    const error = errorOf(job.args[0].seq)
    return { job_id: job.id, worker_id: 'bench', error: { type: error.name, message: error.message, backtrace: error.stack.split('\n') } }
  }
  const ack = job => ({ job_id: job.id, worker_id: 'bench' })
  const endMany = async (verb, ends) => {
    const answer = await post(`workers/${verb}/batch`, { jobs: ends })
    if (answer.failed) throw new Error(`${answer.failed} ends were refused`)
  }

  /** Fetches 100 at a time and ends each by `verb`, until so many have ended. */
  async function work (count, verb, endOf) {
    let ended = 0
    let busy = 0
    const waiting = []
    while (ended + busy < count) {
      const { jobs } = await post('workers/fetch', { queues: ['bench'], count: 100, worker_id: 'bench' })
      if (!jobs.length) await new Promise(resolve => setTimeout(resolve, 1))
      const parts = batch > 1 ? chunked(jobs, batch) : jobs.map(job => [job])
      for (const part of parts) {
        // As many jobs are out as there are connections; with batches, four batches.
        while (busy >= (batch > 1 ? 4 * batch : connections)) await new Promise(resolve => waiting.push(resolve))
        busy += part.length
        const sent = batch > 1 ? endMany(verb, part.map(endOf)) : post(`workers/${verb}`, endOf(part[0]))
        sent.then(() => {
          busy -= part.length
          ended += part.length
          waiting.shift()?.()
        })
      }
    }
    while (ended < count) await new Promise(resolve => setTimeout(resolve, 1))
  }

  return {
    durability: 'every answer after an fsync',
    fill: n => inFlight(Math.ceil(n / 500), 2, at =>
      post('jobs/batch', { jobs: range(Math.min(500, n - at * 500)).map(k => wire(at * 500 + k)) })),
    fail: n => work(n, 'nack', nack),
    succeed: n => Promise.all([
      batch > 1
        ? inFlight(Math.ceil(n / batch), 4, at => post('jobs/batch', { jobs: range(Math.min(batch, n - at * batch)).map(k => wire(at * batch + k)) }))
        : inFlight(n, connections, i => post('jobs', wire(i))),
      work(n, 'ack', ack)
    ]),
    dead: async () => (await call('GET', '/ojs/v1/dead-letter/stats')).total,
    retry: async () => (await post('dead-letter/retry', { filter: { type: TYPES[0] }, confirm: true })).succeeded,
    close: async () => agent.destroy()
  }
}
