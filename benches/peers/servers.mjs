// Private servers: on free ports of loopback, their data in a folder of the run, stopped by their process.

import { spawn, spawnSync } from 'node:child_process'
import { chownSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import net from 'node:net'
import path from 'node:path'
import { until } from './work.mjs'

const freePort = () => new Promise(resolve => {
  const server = net.createServer().listen(0, '127.0.0.1', () => {
    const { port } = server.address()
    server.close(() => resolve(port))
  })
})

const isOpen = port => new Promise(resolve => {
  const socket = net.connect(port, '127.0.0.1')
  socket.on('connect', () => { socket.destroy(); resolve(true) })
  socket.on('error', () => resolve(false))
})

/** The servers of one run, ended in reverse order. */
export class Servers {
  #running = []

  constructor (folder) { this.folder = folder }

  /** Starts a program and waits until its port is open. */
  async #start (program, args, port, options = {}) {
    const child = spawn(program, args, { stdio: 'ignore', ...options })
    const failed = new Promise((resolve, reject) => {
      child.on('error', reject)
      child.on('exit', code => reject(new Error(`${program} ended with ${code}`)))
    })
    failed.catch(() => {})
    this.#running.push(child)
    await Promise.race([until(() => isOpen(port), 50, 120_000), failed])
    return child.pid
  }

  #folder (name) {
    const folder = path.join(this.folder, name)
    mkdirSync(folder, { recursive: true })
    return folder
  }

  async redis () {
    const port = await freePort()
    const args = ['--bind', '127.0.0.1', '--port', `${port}`, '--dir', this.#folder('redis'), '--save', '',
      '--appendonly', 'yes', '--appendfsync', 'always', '--maxmemory-policy', 'noeviction']
    await this.#start('redis-server', args, port)
    return `redis://127.0.0.1:${port}`
  }

  async postgres () {
    const port = await freePort()
    const data = this.#folder('postgres')
    const versions = '/usr/lib/postgresql'
    const newest = existsSync(versions) && readdirSync(versions).sort((a, b) => b - a)[0]
    const program = name => newest ? path.join(versions, newest, 'bin', name) : name
    // PostgreSQL refuses to run as root.
    const user = process.getuid() === 0 ? userIds('postgres') : {}
    if (user.uid) chownSync(data, user.uid, user.gid)
    const made = spawnSync(program('initdb'), ['-D', data, '-U', 'postgres', '-A', 'trust', '-E', 'UTF8', '--no-locale'], { ...user, cwd: '/' })
    if (made.status !== 0) throw new Error(`initdb: ${made.stderr ?? made.error}`)
    const args = ['-D', data, '-h', '127.0.0.1', '-p', `${port}`, '-k', data,
      '-c', 'shared_buffers=512MB', '-c', 'max_wal_size=4GB', '-c', 'max_connections=200']
    await this.#start(program('postgres'), args, port, { ...user, cwd: '/' })
    const { default: pg } = await import('pg')
    // Its port is open before it takes connections.
    await until(async () => {
      const client = new pg.Client(`postgres://postgres@127.0.0.1:${port}/postgres`)
      try {
        await client.connect()
        await client.query('create database bench')
        return true
      } catch (error) {
        if (!/starting up|ECONNRESET/.test(error.message)) throw error
        return false
      } finally {
        await client.end().catch(() => {})
      }
    }, 100, 60_000)
    return `postgres://postgres@127.0.0.1:${port}/bench`
  }

  async rabbitmq () {
    const [port, epmd, distribution] = [await freePort(), await freePort(), await freePort()]
    const folder = this.#folder('rabbitmq')
    await this.#start('epmd', ['-address', '127.0.0.1', '-port', `${epmd}`], epmd)
    const settings = path.join(folder, 'rabbitmq.conf')
    writeFileSync(settings, `listeners.tcp.1 = 127.0.0.1:${port}\ndisk_free_limit.absolute = 1GB\n`)
    const env = {
      ...process.env,
      HOME: folder,
      ERL_EPMD_PORT: `${epmd}`,
      ERL_EPMD_ADDRESS: '127.0.0.1',
      RABBITMQ_NODENAME: 'peers@localhost',
      RABBITMQ_DIST_PORT: `${distribution}`,
      RABBITMQ_MNESIA_BASE: path.join(folder, 'db'),
      RABBITMQ_LOG_BASE: path.join(folder, 'log'),
      RABBITMQ_CONFIG_FILE: settings,
      RABBITMQ_ENABLED_PLUGINS_FILE: path.join(folder, 'plugins'),
      RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS: '-kernel inet_dist_use_interface {127,0,0,1}'
    }
    const inPlace = '/usr/lib/rabbitmq/bin/rabbitmq-server'
    await this.#start(existsSync(inPlace) ? inPlace : 'rabbitmq-server', [], port, { env })
    return `amqp://guest:guest@127.0.0.1:${port}`
  }

  async nats () {
    const port = await freePort()
    const settings = path.join(this.#folder('nats'), 'nats.conf')
    writeFileSync(settings, `listen: "127.0.0.1:${port}"\njetstream { store_dir: "${this.#folder('nats/data')}", max_file_store: 20GB }\n`)
    await this.#start('nats-server', ['-c', settings], port)
    return `nats://127.0.0.1:${port}`
  }

  async lazaret (program, store) {
    const port = await freePort()
    const env = { ...process.env, ...(store && { LAZARET_STORE: store }) }
    const args = ['serve', '--listen', `127.0.0.1:${port}`, '--data', this.#folder('lazaret'), '--test-mode']
    await this.#start(program, args, port, { env })
    return `http://127.0.0.1:${port}`
  }

  async null () {
    const port = await freePort()
    await this.#start(process.execPath, [path.join(import.meta.dirname ?? '.', 'null.mjs'), `${port}`], port)
    return `http://127.0.0.1:${port}`
  }

  async stop () {
    for (const child of this.#running.splice(0).reverse()) {
      if (child.exitCode !== null || child.signalCode !== null) continue
      const ended = new Promise(resolve => child.on('exit', resolve))
      child.kill('SIGTERM')
      const hard = setTimeout(() => child.kill('SIGKILL'), 20_000)
      await ended
      clearTimeout(hard)
    }
  }
}

function userIds (name) {
  const line = readFileSync('/etc/passwd', 'utf8').split('\n').find(line => line.startsWith(`${name}:`))
  if (!line) throw new Error(`there is no user ${name} to run as`)
  const [, , uid, gid] = line.split(':')
  return { uid: +uid, gid: +gid }
}
