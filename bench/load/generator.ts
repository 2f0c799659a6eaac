import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { Agent } from 'undici';
import { percentiles } from '../statistics.ts';
import { streamOnce, type Timed } from './client.ts';
import type { LoadPlan, LoadResult } from './plan.ts';

/** A process of its own, so that measuring does not share a thread with anything: plan in, figures out, as JSON. */

const plan = JSON.parse(process.argv[2] ?? '') as LoadPlan;
const agent = new Agent({ connections: null, pipelining: 1, headersTimeout: 0, bodyTimeout: 0 });
const body = JSON.stringify({
  model: 'tiny',
  stream: true,
  max_tokens: plan.tokens,
  ignore_eos: true,
  messages: [{ role: 'user', content: 'Go.' }],
});
const gaps: number[] = [];
const answers: Timed[] = [];

async function ask(): Promise<void> {
  answers.push(await streamOnce(agent, plan.url, body, gaps, plan.token));
}

async function closed(callers: number, requests: number): Promise<void> {
  let left = requests;
  const caller = async () => {
    while (left-- > 0) await ask();
  };
  await Promise.all(Array.from({ length: callers }, caller));
}

/** Poisson arrivals of a fixed seed: bursts as they come, the same in every run. */
async function open(ratePerSecond: number, requests: number): Promise<void> {
  const asked: Promise<void>[] = [];
  let at = performance.now();
  let seed = 1;
  for (let n = 0; n < requests; n++) {
    seed = (seed * 48271) % 2147483647;
    at += (-Math.log(seed / 2147483647) * 1000) / ratePerSecond;
    const wait = at - performance.now();
    if (wait > 0) await sleep(wait);
    asked.push(ask());
  }
  await Promise.all(asked);
}

/** A client that has just started takes milliseconds for its first requests, which are not the road's. */
const REHEARSAL_REQUESTS = 500;

/** Runs this client's own code until it is compiled, against a server in this process: nothing measured takes part. */
async function rehearse(): Promise<void> {
  const server = createServer((request, response) => {
    request.resume();
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write('data: {"choices":[]}\n\n');
    response.end('data: [DONE]\n\n');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  for (let n = 0; n < REHEARSAL_REQUESTS; n++) await streamOnce(agent, origin, body, []);
  server.close();
  server.closeAllConnections();
}

await rehearse();
const began = performance.now();
if (plan.arrivals.kind === 'closed') await closed(plan.arrivals.callers, plan.arrivals.requests);
else await open(plan.arrivals.ratePerSecond, plan.arrivals.requests);
const durationMs = performance.now() - began;
const result: LoadResult = {
  firstMs: answers.map(({ askedAt, firstAt }) => firstAt - askedAt),
  totalMs: answers.map(({ askedAt, endedAt }) => endedAt - askedAt),
  gapMs: percentiles(gaps),
  tokensPerSecond: (answers.length * plan.tokens * 1000) / durationMs,
  durationMs,
};
// A pipe takes what is longer than 64 KiB bit by bit.
process.stdout.write(JSON.stringify(result), () => process.exit(0));
