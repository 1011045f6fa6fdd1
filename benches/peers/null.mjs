// A server that answers at once and stores nothing: what the driver and loopback cost alone.

import http from 'node:http'
import { jobOf, range } from './work.mjs'

let next = 0
const filler = 'x'.repeat(2_000)

http.createServer((request, response) => {
  const parts = []
  request.on('data', part => parts.push(part))
  request.on('end', () => {
    let answer = { job: filler }
    if (request.url.endsWith('/fetch')) {
      answer = { jobs: range(100).map(() => ({ id: `00000000-0000-7000-8000-${String(next).padStart(12, '0')}`, args: [jobOf(next++).args] })) }
    }
    const text = JSON.stringify(answer)
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) })
    response.end(text)
  })
}).listen(+process.argv[2], '127.0.0.1')
