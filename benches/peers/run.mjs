// Runs the workloads on peers and prints a table: node run.mjs [--jobs N] [--connections N] [--json] [peer…]

import { mkdtempSync, rmSync } from 'node:fs'
import { chmodSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { parseArgs } from 'node:util'
import { Servers } from './servers.mjs'
import { seconds } from './work.mjs'

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    jobs: { type: 'string', default: '20000' },
    connections: { type: 'string', default: '32' },
    lazaret: { type: 'string', default: '../../target/release/lazaret' },
    folder: { type: 'string', default: os.tmpdir() },
    json: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false }
  }
})

const LAZARET = { driver: 'lazaret.mjs', workloads: ['fail', 'succeed', 'retry'] }
const PEERS = {
  null: { ...LAZARET, workloads: ['fail', 'succeed'], start: servers => servers.null() },
  lazaret: { ...LAZARET, start: servers => servers.lazaret(options.lazaret) },
  'lazaret-batch': { ...LAZARET, batch: 100, start: servers => servers.lazaret(options.lazaret) },
  'lazaret-postgres': { ...LAZARET, start: async servers => servers.lazaret(options.lazaret, await servers.postgres()) },
  'lazaret-postgres-batch': { ...LAZARET, batch: 100, start: async servers => servers.lazaret(options.lazaret, await servers.postgres()) },
  bullmq: { driver: 'bullmq.mjs', start: servers => servers.redis() },
  graphile: { driver: 'graphile.mjs', start: servers => servers.postgres() },
  'rabbitmq-quorum': { driver: 'rabbitmq.mjs', start: servers => servers.rabbitmq() },
  nats: { driver: 'nats.mjs', start: servers => servers.nats() }
}

if (options.help || positionals.some(name => !PEERS[name])) {
  console.error(`usage: node run.mjs [--jobs N] [--connections N] [--lazaret PROGRAM] [--folder DIR] [--json] [PEER…]\npeers: ${Object.keys(PEERS).join(', ')}`)
  process.exit(options.help ? 0 : 2)
}

const jobs = +options.jobs
const connections = +options.connections

/** Runs one workload on a fresh server. */
async function measure (name, workload) {
  const peer = PEERS[name]
  const folder = mkdtempSync(path.join(options.folder, 'lazaret-peers-'))
  chmodSync(folder, 0o755)
  const servers = new Servers(folder)
  try {
    const url = await peer.start(servers)
    const { open } = await import(`./${peer.driver}`)
    const driver = await open({ url, connections, batch: peer.batch })
    const count = workload === 'retry' ? Math.min(jobs, 20_000) : jobs
    if (workload !== 'succeed') await driver.fill(count)
    if (workload === 'retry') await driver.fail(count)
    let done = count
    const took = await seconds(async () => {
      const answer = await driver[workload](count)
      if (workload === 'retry') done = answer
    })
    if (workload === 'fail' && name !== 'null') {
      const dead = await driver.dead()
      if (dead !== count) throw new Error(`${dead} of ${count} jobs are dead`)
    }
    const { durability } = driver
    await driver.close()
    return { peer: name, workload, jobs: done, seconds: +took.toFixed(3), perSecond: Math.round(done / took), durability }
  } finally {
    await servers.stop()
    rmSync(folder, { recursive: true, force: true })
  }
}

const results = []
for (const name of positionals.length ? positionals : Object.keys(PEERS)) {
  for (const workload of PEERS[name].workloads ?? LAZARET.workloads) {
    let result
    try {
      result = await measure(name, workload)
    } catch (error) {
      result = { peer: name, workload, error: error.message }
      process.exitCode = 1
    }
    results.push(result)
    console.error(`${name} ${workload}: ${result.error ?? `${result.perSecond}/s`}`)
  }
}

if (options.json) {
  console.log(JSON.stringify(results, null, 2))
} else {
  console.log('| peer | fail to dead, /s | success path, /s | retry of half, /s | durability |\n|---|---|---|---|---|')
  for (const name of new Set(results.map(result => result.peer))) {
    const of = workload => results.find(result => result.peer === name && result.workload === workload)
    const shown = workload => of(workload)?.perSecond?.toLocaleString('en') ?? '–'
    const durability = results.find(result => result.peer === name && result.durability)?.durability ?? ''
    console.log(`| ${name} | ${shown('fail')} | ${shown('succeed')} | ${shown('retry')} | ${name === 'null' ? 'none' : durability} |`)
  }
}
process.exit()
