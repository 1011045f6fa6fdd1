// NATS JetStream with file storage. It has no dead letter: the worker publishes what failed, with its error as headers, to
// a stream of its own and then acknowledges.

import { AckPolicy, connect, headers, StringCodec } from 'nats'
import { TYPES, chunked, errorOf, inFlight, jobOf, range, until } from './work.mjs'

const codec = StringCodec()

export async function open ({ url, connections }) {
  const link = await connect({ servers: url })
  const manager = await link.jetstreamManager()
  const stream = link.jetstream()
  await manager.streams.add({ name: 'JOBS', subjects: ['jobs.>'], retention: 'workqueue' })
  await manager.streams.add({ name: 'DEAD', subjects: ['dead.>'] })
  await manager.consumers.add('JOBS', { durable_name: 'work', ack_policy: AckPolicy.Explicit, max_ack_pending: 10_000 })
  const push = i => stream.publish(`jobs.${jobOf(i).type}`, codec.encode(JSON.stringify(jobOf(i).args)))
  const held = async name => (await manager.streams.info(name)).state.messages

  /** Hands messages of a consumer to `handle`, so many at a time, until so many are done. */
  async function work (streamName, consumer, n, handle) {
    const messages = await (await stream.consumers.get(streamName, consumer)).consume({ max_messages: 500 })
    let done = 0
    let busy = 0
    const waiting = []
    for await (const message of messages) {
      while (busy >= connections) await new Promise(resolve => waiting.push(resolve))
      busy++
      handle(message).then(() => {
        busy--
        done++
        waiting.shift()?.()
        if (done >= n) messages.stop()
      })
    }
    await until(() => done >= n, 2)
  }

  return {
    durability: 'file storage; acknowledged before the fsync, which comes every two minutes',
    fill: async n => { for (const part of chunked(range(n), 500)) await Promise.all(part.map(push)) },
    fail: n => work('JOBS', 'work', n, async message => {
      const error = errorOf(JSON.parse(codec.decode(message.data)).seq)
      const told = headers()
      told.set('error-type', error.name)
      told.set('error-message', error.message)
      told.set('error-stack', encodeURIComponent(error.stack))
      await stream.publish(message.subject.replace('jobs.', 'dead.'), message.data, { headers: told })
      await message.ackAck()
    }),
    succeed: n => Promise.all([
      inFlight(n, connections, push),
      work('JOBS', 'work', n, message => message.ackAck())
    ]),
    dead: () => held('DEAD'),
    retry: async () => {
      const subject = `dead.${TYPES[0]}`
      const { num_pending: wanted } = await manager.consumers.add('DEAD', {
        durable_name: 'retry', ack_policy: AckPolicy.Explicit, filter_subject: subject, max_ack_pending: 10_000
      })
      await work('DEAD', 'retry', wanted, async message => {
        await stream.publish(message.subject.replace('dead.', 'jobs.'), message.data)
        await manager.streams.deleteMessage('DEAD', message.seq, false)
        message.ack()
      })
      return wanted
    },
    close: () => link.close()
  }
}
