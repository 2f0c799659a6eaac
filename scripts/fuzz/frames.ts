import {
  type AnswerRecord,
  encodeRecords,
  type QueueFrame,
  type WorkerFrame,
} from '../../src/protocol/index.ts';
import type { Random } from '../../test/support/random.ts';

type Json = null | boolean | number | string | Json[] | Frame;
type Frame = { [field: string]: Json };

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

/** An example of each frame a worker sends. */
export const WORKER_FRAMES = listOf<WorkerFrame>({
  register: { worker_id: 'thief', config_id: 'none', capacity: 2, protocol: 1, jobs: [] },
  job_result: { job_id: 'held', fence_token: 1, result: {} },
  job_result_ref: { job_id: 'held', fence_token: 1 },
  job_error: { job_id: 'held', fence_token: 1, error: 'x', retryable: true, http_status: 500, body: {} },
  job_progress: { job_id: 'held', fence_token: 1, progress: 0.5, status_message: 'x' },
  job_release: { job_id: 'held', fence_token: 1, reason: 'deadline' },
  renew: { jobs: [{ job_id: 'held', fence_token: 1 }] },
  load: { running: 0, waiting: 0, kv_cache_usage: 0, slots_free: 1 },
  drain: {},
  pause: {},
  resume: {},
  adapters: { names: ['a', 'b'], loaded: ['a'], room: 1, failed: [{ name: 'b', reason: 'x' }] },
});

/** An example of each frame a queue sends. */
export const QUEUE_FRAMES = listOf<QueueFrame>({
  registered: {
    protocol: 1,
    session_id: 's',
    answers_url: 'answers?worker_id=w',
    lease_seconds: 30,
    renew_after_seconds: 24,
    resumed: ['j1'],
    revoked: [{ job_id: 'j1', reason: 'superseded' }],
  },
  job: {
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
  job_revoked: { job_id: 'j1', reason: 'cancelled' },
  ack: { job_id: 'j1', fence_token: 1, outcome: 'accepted' },
  renewed: { lease_seconds: 30, lost: [{ job_id: 'j1', fence_token: 1 }] },
  job_result_ref: { job_id: 'j1' },
  error: { message: 'x' },
});

/** Lists the examples. @param examples the other fields of a frame by its type: without every type it does not compile */
function listOf<Any extends { type: string }>(
  examples: {
    [Type in Any['type']]: Omit<Extract<Any, { type: Type }>, 'type'>;
  },
): Frame[] {
  return Object.entries<Frame>(examples as never).map(([type, fields]) => ({ type, ...fields }));
}

/** A frame of the list as it stands or with fields changed, dropped, added; now and then cut, or no frame at all. */
export function textFrom(random: Random, frames: readonly Frame[]): string {
  if (random.chance(0.03))
    return random.pick(['', '{', '[]', 'null', '"x"', '{"type":"ping"}', '\0', '{"type":5}']);
  const frame: Frame = structuredClone(random.pick(frames));
  if ('job_id' in frame && random.chance(0.7)) frame.job_id = random.pick(JOB_IDS);
  if ('fence_token' in frame && random.chance(0.5)) frame.fence_token = random.below(4);
  for (let change = random.below(4); change > 0; change--) {
    const field = random.pick([...Object.keys(frame), 'type', 'stream_id', 'jobs', 'payload']);
    if (random.chance(0.2)) delete frame[field];
    else if (field !== 'type' || random.chance(0.2)) frame[field] = random.pick(VALUES);
  }
  const text = JSON.stringify(frame);
  return random.chance(0.03) ? text.slice(0, random.below(text.length)) : text;
}

/** A message of whole records with odd values, then bytes changed, cut or added. */
export function bytesFrom(random: Random): Uint8Array<ArrayBuffer> {
  const records = Array.from({ length: 1 + random.below(3) }, () => recordFrom(random));
  const message = encodeRecords(records);
  for (let change = random.chance(0.5) ? random.below(4) : 0; change > 0; change--) {
    if (message.byteLength > 0) message[random.below(message.byteLength)] = random.below(256);
  }
  return random.chance(0.2) ? message.slice(0, random.below(message.byteLength + 1)) : message;
}

function recordFrom(random: Random): AnswerRecord {
  const stream = random.below(8);
  const offset = random.pick([
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
      return { type: 'head', stream, head: random.pick([HEAD, HEAD, ...VALUES]) as never };
    case 1:
      return { type: 'bytes', stream, offset, data: new Uint8Array(random.below(20)) };
    case 2:
      return { type: 'end', stream, size: offset };
    case 3:
      return { type: 'broken', stream, reason: random.pick([BROKEN, BROKEN, ...VALUES]) as never };
    case 4:
      return { type: 'taken', stream, offset };
    case 5:
      return { type: 'cancel', stream, reason: random.pick(['caller_gone', 'deadline', '']) };
    default:
      return random.chance(0.5) ? { type: 'pause', stream } : { type: 'resume', stream };
  }
}
const HEAD = { status: 200, headers: { 'content-type': 'text/event-stream' } };
const BROKEN = { message: 'x', code: 'engine_died', retryable: true };
