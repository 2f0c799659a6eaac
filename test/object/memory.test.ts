import { readFile } from 'node:fs/promises';
import { Agent, request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { until } from '../support/poll.ts';
import { type JobFrame, RawWorker } from '../support/raw-worker.ts';
import { startTestQueue } from '../support/test-queue.ts';

/** Many large requests at once, by callers who may: `CALLERS=2000` for the long form. */
const CALLERS = Number(process.env.CALLERS || 200);
const MIB = 1024 * 1024;
/** Measured: 322 with 200 callers, 448 with 2,000; 690 with 200 when no body is freed before it is collected. */
const MOST_RESIDENT_MIB = 512;

const road = startTestQueue();

/** The most memory that the queue ever had, MiB. */
async function mostResidentMib(): Promise<number> {
  const status = await readFile(`/proc/${road.pid}/status`, 'utf8');
  return Number(/^VmHWM:\s+(\d+) kB/m.exec(status)?.[1]) / 1024;
}

interface Answer {
  status: number;
  retryAfter: string | undefined;
}

function post(path: string, body: Uint8Array, agent: Agent): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const headers = { 'content-length': body.byteLength, 'x-queue-wait': '600' };
    const asked = request(`${road.url}${path}`, { method: 'POST', agent, headers }, (response) => {
      response.resume();
      response.once('error', reject);
      response.once('end', () =>
        resolve({ status: response.statusCode ?? 0, retryAfter: response.headers['retry-after'] }),
      );
    });
    asked.once('error', reject);
    asked.end(body);
  });
}

/** Gives every job that comes a short answer. */
async function answerAll(worker: RawWorker, isOver: () => boolean): Promise<void> {
  for (let index = 0; !isOver(); ) {
    const job = worker.frames.filter((frame) => frame.type === 'job')[index];
    if (!job) {
      await sleep(10);
      continue;
    }
    index += 1;
    worker.answerJson(job as JobFrame);
    worker.result(job as JobFrame, {});
  }
}

it(`${CALLERS} callers of 2 MiB at once are answered or told when to come back`, {
  timeout: 600_000,
}, async () => {
  // One character outside Latin-1 doubles what a string of the rest takes.
  const text = `🙂${'x'.repeat(2 * MIB)}`;
  const body = Buffer.from(JSON.stringify({ model: 'tiny', messages: [{ role: 'user', content: text }] }));
  const agent = new Agent({ maxSockets: Number.POSITIVE_INFINITY });
  const answers: Answer[] = [];
  const asked = Array.from({ length: CALLERS }, () =>
    post('/v1/chat/completions', body, agent).then((answer) => answers.push(answer)),
  );
  const waiting = async () =>
    ((await (await fetch(`${road.url}/health`)).json()) as { pending: number }).pending;
  await until(async () => answers.length + (await waiting()) >= CALLERS, 'all wait or are answered', {
    timeoutMs: 500_000,
    everyMs: 200,
  });
  const worker = await (await new RawWorker(road.url).connect()).register('w', { capacity: 1 });
  let isOver = false;
  const working = answerAll(worker, () => isOver);
  await Promise.all(asked);
  isOver = true;
  await working;
  const statuses = [...new Set(answers.map(({ status }) => status))].sort();
  const most = await mostResidentMib();
  expect(statuses.filter((status) => ![200, 429, 503].includes(status))).toEqual([]);
  expect(answers.filter(({ status, retryAfter }) => status !== 200 && !retryAfter)).toEqual([]);
  expect(statuses).toContain(200);
  expect(most).toBeLessThan(MOST_RESIDENT_MIB);
  agent.destroy();
});

/** Processor time that the queue has spent, ms: other than the time that passes, it does not grow with the load of others. */
async function processorMs(): Promise<number> {
  const stat = await readFile(`/proc/${road.pid}/stat`, 'utf8');
  const [user, system] = stat
    .slice(stat.lastIndexOf(')') + 2)
    .split(' ')
    .slice(11, 13);
  return 10 * (Number(user) + Number(system));
}

/** Parsed, each of these bodies takes seconds, in which nobody else is answered; scanned, some ten milliseconds. */
const MOST_PROCESSOR_MS = 1500;

/** Asks one request after the other. @returns the most processor time that the queue spent while it waited for one, ms */
async function waitBeside(isOver: () => boolean): Promise<number> {
  let most = 0;
  while (!isOver()) {
    const before = await processorMs();
    expect((await fetch(`${road.url}/health`)).status).toBe(200);
    most = Math.max(most, (await processorMs()) - before);
  }
  return most;
}

const nested = '['.repeat(4_000_000);
const dense = `[${'{},'.repeat(6_000_000)}{}]`;

it.each([
  ['four million levels of nesting', [`{"model":"tiny","messages":${nested}`, nested]],
  ['six million small values', [`{"model":"tiny","messages":${dense}}`, dense]],
])('%s make nobody else wait', async (_, bodies) => {
  const agent = new Agent({ maxSockets: Number.POSITIVE_INFINITY });
  let isOver = false;
  const beside = waitBeside(() => isOver);
  for (const path of ['/v1/chat/completions', '/api/jobs']) {
    for (const body of bodies) expect((await post(path, Buffer.from(body), agent)).status).toBe(400);
  }
  isOver = true;
  expect(await beside).toBeLessThan(MOST_PROCESSOR_MS);
  agent.destroy();
});
