import { setTimeout as sleep } from 'node:timers/promises';
import type { Fields } from '../src/features/responses/types.ts';
import { childrenOf, commandLine as commandLineOf, signal } from '../test/soak/proc.ts';
import {
  killQueue,
  type QueueProcess,
  readyWorker,
  startQueue,
  tearDown,
  tearDownOnSignals,
  type WorkerProcess,
} from '../test/support/road.ts';
import { commandLine, wholeFrom } from './command-line.ts';

/**
 * Asks for responses in the background while queue, workers and engines are killed in turn, and checks that each that
 * was acknowledged ends once: its record stays as it is, and its stream has every number and one last event.
 */
const { responses: COUNT, kills: KILLS } = commandLine(
  'node scripts/kill-responses.ts',
  'checks that responses in the background end once each while processes are killed',
)
  .option('--responses <count>', 'responses that are asked for', wholeFrom(1), 5000)
  .option('--kills <count>', 'kills of queue, worker and engine, in turn', wholeFrom(1), 20)
  .parse()
  .opts<{ responses: number; kills: number }>();

/** Callers that ask at the same time; each leaves its response and asks for the next. */
const CALLERS = 8;
/** Responses that wait or run at most. */
const MOST_OPEN = 300;
const TOKENS = 12;
const SLOTS = { engineArgs: '--inter-token-latency-ms 20', env: { CASOLA_MAX_JOBS: '24' } };
const FINAL = new Set(['completed', 'incomplete', 'failed', 'cancelled']);

tearDownOnSignals();
let queue: QueueProcess = await startQueue();
let workers = 0;
const running: WorkerProcess[] = [];
for (let n = 0; n < 2; n += 1) running.push(await startAnother());

function startAnother(): Promise<WorkerProcess> {
  workers += 1;
  return readyWorker(queue.url, `w${workers}`, SLOTS);
}

interface Asked {
  id: string;
  isStreamed: boolean;
  /** The record as it was read when it was final. */
  final: Fields | null;
}

const asked: Asked[] = [];
const problems: string[] = [];
let unanswered = 0;

/** Makes a request; undefined: the queue was away. */
async function ask(
  path: string,
  init: RequestInit = {},
): Promise<{ status: number; text: string } | undefined> {
  try {
    const response = await fetch(`${queue.url}/v1/responses${path}`, init);
    return { status: response.status, text: await response.text() };
  } catch {
    return undefined;
  }
}

async function askForOne(number: number): Promise<void> {
  const isStreamed = number % 2 === 0;
  const body = {
    model: 'tiny',
    input: `Response ${number}`,
    background: true,
    stream: isStreamed,
    max_output_tokens: TOKENS,
    ignore_eos: true,
  };
  try {
    const response = await fetch(`${queue.url}/v1/responses`, { method: 'POST', body: JSON.stringify(body) });
    const id = response.headers.get('x-job-id');
    if (response.status !== 200 || id === null) {
      await response.body?.cancel();
      unanswered += 1;
      await sleep(200);
      return;
    }
    asked.push({ id, isStreamed, final: null });
    // Some read for as long as the queue lives, some leave at once.
    if (number % 10 === 0) await response.text().catch(() => {});
    else await response.body?.cancel();
    if (number % 17 === 0) {
      await sleep(Math.random() * 400);
      await ask(`/${id}/cancel`, { method: 'POST' });
    }
  } catch {
    unanswered += 1;
    await sleep(200);
  }
}

let next = 0;

async function caller(): Promise<void> {
  while (asked.length < COUNT) {
    next += 1;
    await askForOne(next);
    while (asked.length - done() > MOST_OPEN) await sleep(50);
  }
}

const done = () => asked.reduce((sum, { final }) => sum + (final === null ? 0 : 1), 0);

/** Reads the records until all are final. */
async function poller(): Promise<void> {
  for (;;) {
    for (const one of asked.filter(({ final }) => final === null)) {
      const answer = await ask(`/${one.id}`);
      if (answer?.status === 404) {
        problems.push(`${one.id} is lost`);
        one.final = {};
      }
      if (answer?.status !== 200) continue;
      const response = JSON.parse(answer.text) as Fields;
      if (FINAL.has(String(response.status))) one.final = response;
    }
    if (asked.length >= COUNT && done() >= asked.length) return;
    await sleep(100);
  }
}

/** Kills a process of a worker's, and starts another worker in its place. */
async function killOf(name: string): Promise<void> {
  const victim = running.shift()!;
  const child = childrenOf(victim.process.pid).find((pid) => commandLineOf(pid).includes(name));
  if (child === undefined) throw new Error(`no ${name} below worker ${victim.id}`);
  signal(child, 'SIGKILL');
  await victim.process.exited;
  running.push(await startAnother());
}

const KINDS: (() => Promise<void>)[] = [
  async () => {
    await killQueue(queue);
    queue = await startQueue({ port: queue.port, stateDir: queue.stateDir });
  },
  () => killOf('programs/worker.js'),
  () => killOf('simulator'),
];

async function killer(): Promise<void> {
  for (let kill = 0; kill < KILLS; kill += 1) {
    const from = asked.length;
    const until = Math.min(COUNT - 1, from + Math.floor(COUNT / (KILLS + 1)));
    while (asked.length < until) await sleep(20);
    await KINDS[kill % KINDS.length]!();
    console.log(`kill ${kill + 1} of ${KILLS}: ${asked.length} asked for, ${done()} final`);
  }
}

function eventsOf(text: string): Fields[] {
  return text
    .split('\n\n')
    .map((event) => /^data: (.*)$/m.exec(event)?.[1])
    .filter((data) => data !== undefined)
    .map((data) => JSON.parse(data) as Fields);
}

async function check({ id, isStreamed, final }: Asked): Promise<void> {
  const again = await ask(`/${id}`);
  if (again?.text !== JSON.stringify(final)) problems.push(`${id} changed after its end`);
  if ((final?.output as unknown[] | undefined)?.length !== 1 && final?.status === 'incomplete')
    problems.push(`${id} has not one output`);
  if (!isStreamed) return;
  const stream = await ask(`/${id}?stream=true`);
  // The events are gone a while after the end.
  if (stream?.status === 400) return;
  const events = eventsOf(stream?.text ?? '');
  if (events.some(({ sequence_number }, at) => sequence_number !== at)) problems.push(`${id} has a gap`);
  const last = events.filter(({ type }) => FINAL.has(String(type).replace('response.', '')));
  const wanted = final?.status === 'cancelled' ? 0 : 1;
  if (last.length !== wanted) problems.push(`${id} (${final?.status}) has ${last.length} last events`);
  if (wanted === 1 && events.at(-1)?.type !== `response.${final?.status}`)
    problems.push(`${id} does not end with its status`);
}

const startedAt = performance.now();
const polling = poller();
await Promise.all([killer(), ...Array.from({ length: CALLERS }, caller)]);
await polling;
await KINDS[0]!();
for (const one of asked) await check(one);
const ids = new Set(asked.map(({ id }) => id));
if (ids.size !== asked.length) problems.push('an id was given twice');
const counts: Record<string, number> = {};
for (const { final } of asked) counts[String(final?.status)] = (counts[String(final?.status)] ?? 0) + 1;
const seconds = Math.round((performance.now() - startedAt) / 1000);
console.log(`${asked.length} responses, ${KILLS} kills, ${seconds} s; ${unanswered} were not taken`, counts);
console.log(problems.length === 0 ? 'Each ended once.' : problems.slice(0, 20).join('\n'));
await tearDown();
process.exitCode = problems.length === 0 ? 0 : 1;
