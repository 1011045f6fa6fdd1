// BullMQ on Redis. A job that fails its only attempt stays in the failed set with its stack trace.

import { Queue, Worker } from 'bullmq'
import Redis from 'ioredis'
import { TYPES, chunked, errorOf, inFlight, jobOf, range, until } from './work.mjs'

export async function open ({ url, connections }) {
  const connect = () => new Redis(url, { maxRetriesPerRequest: null })
  const links = [connect(), connect()]
  const queue = new Queue('bench', { connection: links[0] })
  const options = { attempts: 1, removeOnComplete: true }
  const named = i => ({ name: jobOf(i).type, data: jobOf(i).args, opts: options })

  /** Runs a worker until so many jobs have ended. */
  async function work (n, handle, event) {
    let ended = 0
    const worker = new Worker('bench', handle, { connection: links[1], concurrency: connections })
    worker.on(event, () => { ended++ })
    worker.on('error', () => {})
    await until(() => ended >= n, 2)
    await worker.close()
  }

  return {
    durability: 'Redis with appendfsync always: every command after an fsync',
    fill: async n => { for (const part of chunked(range(n), 500)) await queue.addBulk(part.map(named)) },
    fail: n => work(n, async job => { throw errorOf(job.data.seq) }, 'failed'),
    succeed: n => Promise.all([
      inFlight(n, connections, i => queue.add(named(i).name, named(i).data, options)),
      work(n, async () => {}, 'completed')
    ]),
    dead: () => queue.getFailedCount(),
    retry: async () => {
      // Its own bulk retry takes all failed jobs; by type they have to be found first.
      const wanted = (await queue.getFailed(0, -1)).filter(job => job.name === TYPES[0])
      await inFlight(wanted.length, 64, i => wanted[i].retry('failed'))
      return wanted.length
    },
    close: async () => { await queue.close(); links.forEach(link => link.disconnect()) }
  }
}
