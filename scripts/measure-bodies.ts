import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { JobView } from '../src/protocol/index.ts';
import { startQueueProcess } from '../test/support/queue-process.ts';
import { closeRawWorkers, type JobFrame, RawWorker } from '../test/support/raw-worker.ts';
import { commandLine, wholeFrom } from './command-line.ts';

/**
 * Measures the memory of a queue while stored jobs with large payloads and results go through it all at once:
 * submitted, fetched by a worker, their results put and announced, and read.
 */
const given = commandLine(
  'node scripts/measure-bodies.ts',
  'measures the memory of a queue while stored jobs with large payloads and results go through it',
)
  .option('--jobs <count>', 'jobs at once', wholeFrom(1), 24)
  .option('--mib <count>', 'MiB of a payload, and of a result', wholeFrom(1), 2)
  .parse()
  .opts<{ jobs: number; mib: number }>();
const { jobs } = given;
let refused = 0;
const text = 'x'.repeat(given.mib * 1024 * 1024);

const stateDir = await mkdtemp(join(tmpdir(), 'bodies-'));
const road = await startQueueProcess({ host: '127.0.0.1', port: 0, stateDir, bindings: {} });
const ids = Array.from({ length: jobs }, (_, n) => `job-${n}`);
await tell('begin', async () => {});
await tell('submit', () => Promise.all(ids.map(submit)));
const worker = await (await new RawWorker(road.url).connect()).register('w', { capacity: jobs });
const frames = await Promise.all(ids.map((_, n) => worker.job(n)));
await tell('fetch payloads', () => Promise.all(frames.map(fetchPayload)));
await tell('put results', () => Promise.all(frames.map(putResult)));
await tell('read results', () => Promise.all(ids.map(read)));
closeRawWorkers();
await road.stop();
await rm(stateDir, { recursive: true, force: true });

/** Runs one step, and prints the most memory that the queue had in it and what it has a second later. */
async function tell(name: string, step: () => Promise<unknown>): Promise<void> {
  // This write resets the kernel's peak.
  await writeFile(`/proc/${road.pid}/clear_refs`, '5').catch(() => {});
  const began = performance.now();
  await step();
  const seconds = ((performance.now() - began) / 1000).toFixed(1);
  const most = await residentMib('VmHWM');
  await sleep(1000);
  console.log(
    `${name}: ${most} MiB at most, ${await residentMib('VmRSS')} after it, ${seconds} s, ${refused} times refused`,
  );
  refused = 0;
}

async function residentMib(field: 'VmHWM' | 'VmRSS'): Promise<number> {
  const status = await readFile(`/proc/${road.pid}/status`, 'utf8');
  return Math.round(Number(new RegExp(`^${field}:\\s+(\\d+) kB`, 'm').exec(status)?.[1]) / 1024);
}

async function submit(id: string): Promise<void> {
  const payload = { method: 'POST', path: '/v1/chat/completions', body: JSON.stringify({ text }) };
  const body = JSON.stringify({ id, job_type: 'engine_request', config_id: 'cfg', payload });
  await told(() => fetch(`${road.url}/api/jobs`, { method: 'POST', body }), 201);
}

async function fetchPayload(frame: JobFrame): Promise<void> {
  await told(() => fetch(new URL(String(frame.payload_url), `${road.url}/`)), 200);
}

async function putResult(frame: JobFrame): Promise<void> {
  const { job_id, fence_token } = frame;
  const address = new URL(String(frame.result_upload_url), `${road.url}/`);
  await told(() => fetch(address, { method: 'PUT', body: JSON.stringify({ text }) }), 201);
  worker.send({ type: 'job_result_ref', job_id, fence_token });
}

async function read(id: string): Promise<void> {
  const response = await fetch(`${road.url}/api/jobs/${id}?wait=60`);
  const { result } = (await response.json()) as JobView;
  if ((result as { text?: string } | null)?.text !== text) throw new Error(`the result of ${id} is another`);
}

/** Repeats a request as long as the gateway has no room. */
async function told(ask: () => Promise<Response>, status: number): Promise<void> {
  let response = await ask();
  for (; response.status === 503; response = await ask()) {
    refused += 1;
    await response.arrayBuffer();
    await sleep(100);
  }
  if (response.status !== status) throw new Error(`${response.status}: ${await response.text()}`);
  await response.arrayBuffer();
}
