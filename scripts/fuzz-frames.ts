import { parseArgs } from 'node:util';
import { type AnswerRecord, encodeRecords } from '../src/protocol/index.ts';
import { Relay } from '../src/relay/relay.ts';
import { QueueHarness } from '../test/support/queue-harness.ts';
import { settled, WorkerBench } from '../test/support/worker-fakes.ts';

/**
 * Frames that no honest peer would send, at the doors where frames come in: the queue's control socket, the
 * worker's control and answer sockets, the relay's answer socket. None may throw, and what a worker sends
 * may not touch another worker's job.
 * `npm run fuzz -- [--frames N] [--seed S] [--only queue|worker|relay]`; same seed, same frames.
 */
const { values } = parseArgs({
  options: {
    frames: { type: 'string', default: '100000' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    only: { type: 'string' },
  },
});
const seed = Number(values.seed);
const share = Math.ceil(Number(values.frames) / (values.only ? 1 : 3));
/** A target is built anew after this many frames, so that what failed is close to a clean state. */
const ROUND = 2000;

class Random {
  #state: number;

  constructor(start: number) {
    this.#state = start >>> 0;
  }

  /** 0..1 (mulberry32). */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let t = this.#state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  }

  below(count: number): number {
    return Math.floor(this.next() * count);
  }

  chance(share: number): boolean {
    return this.next() < share;
  }

  of<T>(list: readonly T[]): T {
    return list[this.below(list.length)] as T;
  }
}

type Json = null | boolean | number | string | Json[] | { [field: string]: Json };

const JOB_IDS = ['held', 'elsewhere', 'mine', 'j1', 'ghost'];
/** Values that have broken programs before, and those that fit somewhere. */
const VALUES: Json[] = [
  ...[null, true, false, 0, 1, 2, 7, 65_535, -1, 0.5, 1e21, 1e308, 5e-324, 2 ** 31, 2 ** 32, 2 ** 53],
  ...[
    '',
    ' ',
    'x',
    '0',
    'null',
    '__proto__',
    'constructor',
    '\0',
    '\ud800',
    '😀',
    'http://[',
    '//',
    'a'.repeat(300),
  ],
  ...['answers?x=1', 'draining', 'deadline', 'overloaded', 'accepted', 'stale', 'persisted', 'transient'],
  ...['chat_completion', 'engine_request', 'http://127.0.0.1:9/', 'file:///etc/passwd'],
  ...[[], {}, [[]], [null], { a: 1 }, { messages: [] }, { messages: [{ role: 'user', content: 'x' }] }],
  ...[{ path: '/v1/chat/completions', body: '{}' }, { path: 5 }, [{ job_id: 'held', fence_token: 1 }]],
];

const WORKER_FRAMES: { [field: string]: Json }[] = [
  {
    type: 'register',
    worker_id: 'thief',
    config_id: 'none',
    capacity: 2,
    protocol: 1,
    features: ['ack'],
    jobs: [],
  },
  { type: 'job_result', job_id: 'held', fence_token: 1, result: {} },
  { type: 'job_result_ref', job_id: 'held', fence_token: 1 },
  {
    type: 'job_error',
    job_id: 'held',
    fence_token: 1,
    error: 'x',
    retryable: true,
    http_status: 500,
    body: {},
  },
  { type: 'job_progress', job_id: 'held', fence_token: 1, progress: 0.5, status_message: 'x' },
  { type: 'job_release', job_id: 'held', fence_token: 1, reason: 'deadline' },
  { type: 'renew', jobs: [{ job_id: 'held', fence_token: 1 }] },
  { type: 'load', running: 0, waiting: 0, kv_cache_usage: 0, slots_free: 1 },
  { type: 'drain' },
  { type: 'pause' },
  { type: 'resume' },
];

const QUEUE_FRAMES: { [field: string]: Json }[] = [
  {
    type: 'registered',
    protocol: 1,
    features: ['ack', 'answer', 'release', 'renew', 'load'],
    session_id: 's',
    answers_url: 'answers?worker_id=w',
    lease_seconds: 30,
    renew_after_seconds: 24,
    resumed: ['j1'],
    revoked: [{ job_id: 'j1', reason: 'superseded' }],
  },
  {
    type: 'job',
    job_id: 'j1',
    mode: 'persisted',
    config_id: 'c',
    payload: { messages: [] },
    fence_token: 1,
    job_type: 'chat_completion',
    attempt: 1,
    deadline_ms: 1000,
    lease_seconds: 30,
    stream_id: 7,
    payload_url: 'http://127.0.0.1:9/',
    result_upload_url: 'http://127.0.0.1:9/',
  },
  { type: 'job_revoked', job_id: 'j1', reason: 'cancelled' },
  { type: 'ack', job_id: 'j1', fence_token: 1, outcome: 'accepted' },
  { type: 'renewed', lease_seconds: 30, lost: ['j1'] },
  { type: 'job_result_ref', job_id: 'j1' },
  { type: 'error', message: 'x' },
];

/** A frame of the list as it stands or with fields changed, dropped, added; now and then cut, or no frame at all. */
function textFrom(random: Random, frames: readonly { [field: string]: Json }[]): string {
  if (random.chance(0.03))
    return random.of(['', '{', '[]', 'null', '"x"', '{"type":"ping"}', '\0', '{"type":5}']);
  const frame: { [field: string]: Json } = structuredClone(random.of(frames));
  if ('job_id' in frame && random.chance(0.7)) frame.job_id = random.of(JOB_IDS);
  if ('fence_token' in frame && random.chance(0.5)) frame.fence_token = random.below(4);
  for (let change = random.below(4); change > 0; change--) {
    const field = random.of([...Object.keys(frame), 'type', 'stream_id', 'jobs', 'payload']);
    if (random.chance(0.2)) delete frame[field];
    else if (field !== 'type' || random.chance(0.2)) frame[field] = random.of(VALUES);
  }
  const text = JSON.stringify(frame);
  return random.chance(0.03) ? text.slice(0, random.below(text.length)) : text;
}

/** A message of whole records with odd values, then bytes changed, cut or added. */
function bytesFrom(random: Random): Uint8Array<ArrayBuffer> {
  const records = Array.from({ length: 1 + random.below(3) }, () => recordFrom(random));
  const message = encodeRecords(records);
  for (let change = random.chance(0.5) ? random.below(4) : 0; change > 0; change--) {
    if (message.byteLength > 0) message[random.below(message.byteLength)] = random.below(256);
  }
  return random.chance(0.2) ? message.slice(0, random.below(message.byteLength + 1)) : message;
}

function recordFrom(random: Random): AnswerRecord {
  const stream = random.below(8);
  const offset = random.of([
    0,
    0,
    1,
    5,
    9,
    100,
    -1,
    0.5,
    2 ** 53,
    2 ** 60,
    Number.NaN,
    Number.POSITIVE_INFINITY,
  ]);
  switch (random.below(8)) {
    case 0:
      return { type: 'head', stream, head: random.of([HEAD, HEAD, ...VALUES]) as never };
    case 1:
      return { type: 'bytes', stream, offset, data: new Uint8Array(random.below(20)) };
    case 2:
      return { type: 'end', stream, size: offset };
    case 3:
      return { type: 'broken', stream, reason: random.of([BROKEN, BROKEN, ...VALUES]) as never };
    case 4:
      return { type: 'taken', stream, offset };
    case 5:
      return { type: 'cancel', stream, reason: random.of(['caller_gone', 'deadline', '']) };
    default:
      return random.chance(0.5) ? { type: 'pause', stream } : { type: 'resume', stream };
  }
}
const HEAD = { status: 200, headers: { 'content-type': 'text/event-stream' } };
const BROKEN = { message: 'x', code: 'engine_died', retryable: true };

/** One thing with a door: takes one input, throws when it or its surroundings are harmed. */
interface Target {
  input(random: Random): string | Uint8Array<ArrayBuffer>;
  take(input: string | Uint8Array<ArrayBuffer>, random: Random): void | Promise<void>;
  /** At the end of a round. */
  check(): void | Promise<void>;
}

const TARGETS: Record<string, () => Target | Promise<Target>> = {
  queue: () => {
    const queue = new QueueHarness();
    const holder = queue.worker('holder', { capacity: 1 });
    queue.submit({ id: 'held' }, { id: 'elsewhere', config_id: 'other' });
    queue.submit({ id: 'mine', config_id: 'none', max_attempts: 100 });
    const look = () => JSON.stringify([queue.queue.get('held'), queue.queue.get('elsewhere')]);
    const before = look();
    let thief = queue.connect();
    return {
      input: (random) => textFrom(random, WORKER_FRAMES),
      take: (input, random) => {
        if (random.chance(0.01)) {
          queue.drop(thief);
          thief = queue.connect();
        }
        // Whoever has a worker's token may take over its connection; that is not what is tried here.
        if ((input as string).includes('"holder"')) return;
        queue.say(thief, input);
        if (random.chance(0.01)) thief.sent.length = 0;
      },
      check: () => {
        if (look() !== before)
          throw new Error(`another worker's job was changed: ${before} became ${look()}`);
        queue.say(holder, { type: 'job_result', job_id: 'held', fence_token: 1, result: {} });
        if (queue.state('held') !== 'succeeded') throw new Error('the holder cannot settle its job any more');
      },
    };
  },
  worker: async () => {
    const bench = await new WorkerBench({ capacity: 4 }).ready();
    const failed: unknown[] = [];
    const onFailure = (error: unknown) => failed.push(error);
    process.once('unhandledRejection', onFailure);
    return {
      input: (random) => (random.chance(0.7) ? textFrom(random, QUEUE_FRAMES) : bytesFrom(random)),
      take: async (input, random) => {
        if (typeof input === 'string') bench.queue.push(input);
        else bench.relay.pushBytes(input);
        if (random.chance(0.02)) bench.engine.exchanges.at(-1)?.complete();
        if (random.chance(0.05)) await settled();
        if (failed.length > 0) throw failed[0];
      },
      check: async () => {
        await settled();
        process.off('unhandledRejection', onFailure);
        if (failed.length > 0) throw failed[0];
      },
    };
  },
  relay: () => {
    let now = 0;
    const relay = new Relay(() => now, { reconnect_grace_seconds: 10 });
    const socket = () => ({ send: () => {}, close: () => {} });
    let current = socket();
    relay.onSocket(current);
    const open = (id: number, random: Random) =>
      relay.open(id, (opening) => {
        // What the object does with it: a response is made of the head, a header of the reason.
        if (opening.ok) new Response(null, { status: 200, headers: opening.head.headers });
        else JSON.parse(JSON.stringify(opening.reason)).code.toString();
        if (opening.ok) relay.attach(id, { write: () => random.chance(0.9), end: () => {}, abort: () => {} });
      });
    return {
      input: bytesFrom,
      take: (input, random) => {
        if (random.chance(0.1)) open(random.below(8), random);
        relay.onMessage(current, (input as Uint8Array<ArrayBuffer>).slice().buffer);
        if (random.chance(0.05)) {
          now += random.of([1, 1000, 40_000, 70_000]);
          relay.onTick();
        }
        if (random.chance(0.02)) relay.callerGone(random.below(8));
        if (random.chance(0.02)) {
          current = socket();
          relay.onSocket(current);
        }
      },
      check: () => {},
    };
  },
};

async function fuzz(name: string, build: () => Target | Promise<Target>): Promise<boolean> {
  const started = performance.now();
  for (let done = 0; done < share; done += ROUND) {
    // Every round can be played again alone: its seed is told.
    const roundSeed = seed + done;
    const random = new Random(roundSeed);
    const target = await build();
    let input: string | Uint8Array<ArrayBuffer> = '';
    let frame = 0;
    try {
      for (; frame < Math.min(ROUND, share - done); frame++) {
        input = target.input(random);
        await target.take(input, random);
      }
      await target.check();
    } catch (error) {
      const shown = typeof input === 'string' ? input : Buffer.from(input).toString('hex');
      console.error(`${name}: frame ${frame} of the round with seed ${roundSeed} failed:\n${shown}`);
      console.error((error as Error).stack ?? error);
      console.error(`Again: npm run fuzz -- --only ${name} --seed ${roundSeed} --frames ${frame + 1}`);
      return false;
    }
  }
  const seconds = (performance.now() - started) / 1000;
  console.log(`${name.padEnd(6)} ${share} frames, ${Math.round(share / seconds)} a second, none did harm`);
  return true;
}

console.log(`seed ${seed}`);
let ok = true;
for (const [name, build] of Object.entries(TARGETS)) {
  if (!values.only || values.only === name) ok = (await fuzz(name, build)) && ok;
}
process.exitCode = ok ? 0 : 1;
