// RabbitMQ with quorum queues. A rejected message goes to the dead-letter queue; no error is kept with it.

import amqp from 'amqplib'
import { chunked, inFlight, jobOf, range, until } from './work.mjs'

const QUORUM = { 'x-queue-type': 'quorum' }

export async function open ({ url, connections }) {
  const connection = await amqp.connect(url)
  const channel = await connection.createConfirmChannel()
  await channel.assertQueue('dead', { durable: true, arguments: QUORUM })
  await channel.assertQueue('bench', {
    durable: true,
    arguments: { ...QUORUM, 'x-dead-letter-exchange': '', 'x-dead-letter-routing-key': 'dead' }
  })
  const publish = (queue, body, type) => new Promise((resolve, reject) =>
    channel.sendToQueue(queue, body, { persistent: true, type }, error => error ? reject(error) : resolve()))
  const push = i => publish('bench', Buffer.from(JSON.stringify(jobOf(i))), jobOf(i).type)
  const dead = async () => (await channel.checkQueue('dead')).messageCount

  /** Hands every message of a queue to `handle` until so many have come. */
  async function work (queue, n, handle) {
    const own = await connection.createChannel()
    await own.prefetch(connections)
    let handled = 0
    await own.consume(queue, message => { if (message && handled < n) { handled++; handle(own, message) } })
    await until(() => handled >= n, 2)
    return own
  }

  return {
    durability: 'quorum queue of one node, publisher confirms',
    fill: async n => { for (const part of chunked(range(n), 500)) await Promise.all(part.map(push)) },
    fail: async n => {
      const own = await work('bench', n, (own, message) => own.nack(message, false, false))
      await until(async () => await dead() >= n)
      await own.close()
    },
    succeed: async n => {
      const [own] = await Promise.all([
        work('bench', n, (own, message) => own.ack(message)),
        inFlight(n, connections, push)
      ])
      await until(async () => (await channel.checkQueue('bench')).messageCount === 0)
      await own.close()
    },
    dead,
    // There is no filter: half of the messages are taken in their order.
    retry: async () => {
      const half = Math.floor(await dead() / 2)
      const own = await work('dead', half, (own, message) => {
        publish('bench', message.content, message.properties.type).then(() => own.ack(message))
      })
      await until(async () => (await channel.checkQueue('bench')).messageCount >= half)
      await own.close()
      return half
    },
    close: () => connection.close()
  }
}
