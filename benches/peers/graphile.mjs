// graphile-worker on PostgreSQL. A job that is out of attempts stays in the table with its last error.

import { Logger, run, runMigrations } from 'graphile-worker'
import pg from 'pg'
import { TYPES, chunked, errorOf, inFlight, jobOf, range, until } from './work.mjs'

export async function open ({ url, connections }) {
  const pool = new pg.Pool({ connectionString: url, max: connections + 8 })
  pool.on('error', () => {})
  pool.on('connect', client => client.on('error', () => {}))
  // It would print every failure with its stack.
  const logger = new Logger(() => () => {})
  await runMigrations({ pgPool: pool, logger })
  const dead = 'attempts >= max_attempts and locked_at is null'
  const count = async where =>
    Number((await pool.query(`select count(*) from graphile_worker._private_jobs where ${where}`)).rows[0].count)

  /** Runs workers until so many jobs have been handled and none is left locked. */
  async function work (n, handle, isDone) {
    const tasks = Object.fromEntries(TYPES.map(type => [type, handle]))
    const preset = {
      worker: {
        connectionString: url,
        concurrentJobs: connections,
        pollInterval: 100,
        // Ends of jobs are gathered and written together, and jobs are fetched ahead.
        completeJobBatchDelay: 0,
        failJobBatchDelay: 0,
        localQueue: { size: 100 }
      }
    }
    const runner = await run({ preset, taskList: tasks, noHandleSignals: true, pgPool: pool, logger })
    await until(isDone, 5)
    await runner.stop()
  }

  const add = i => pool.query(
    'select graphile_worker.add_job($1, $2::json, max_attempts := 1)', [jobOf(i).type, JSON.stringify(jobOf(i).args)])

  return {
    durability: 'PostgreSQL with synchronous_commit on; ends of jobs are written in groups',
    fill: async n => {
      for (const part of chunked(range(n), 500)) {
        const jobs = part.map(i => ({ type: jobOf(i).type, args: jobOf(i).args }))
        await pool.query(
          `select graphile_worker.add_job(job->>'type', job->'args', max_attempts := 1) from json_array_elements($1::json) job`,
          [JSON.stringify(jobs)])
      }
    },
    fail: n => work(n, async payload => { throw errorOf(payload.seq) }, async () => await count(dead) >= n),
    succeed: async n => {
      let handled = 0
      let pushed = false
      const pushing = inFlight(n, connections, add).then(() => { pushed = true })
      await work(n, async () => { handled++ }, async () => pushed && handled >= n && await count('true') === 0)
      await pushing
    },
    dead: () => count(dead),
    retry: async () => {
      const found = await pool.query(
        `select graphile_worker.reschedule_jobs(array(select job.id from graphile_worker._private_jobs job
           join graphile_worker._private_tasks task on task.id = job.task_id
           where task.identifier = $1 and job.attempts >= job.max_attempts), attempts := 0)`, [TYPES[0]])
      return found.rowCount
    },
    close: () => pool.end()
  }
}
