import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Connections, head } from './connections.ts';
import type { Target } from './target.ts';

/** How much of each attack: `short` for every test run, `full` on demand. */
export type Size = 'short' | 'full';

export interface Attack {
  name: string;
  /** What is tried, for the report. */
  about(size: Size): string;
  /** Returns what came of it, in words, and ends by itself. */
  run(target: Target, size: Size): Promise<string>;
}

const MIB = 1024 * 1024;

const idle: Attack = {
  name: 'idle connections',
  about: (size) => `${count.idle[size]} connections that say nothing for ${seconds.idle[size]} s`,
  async run({ queue }, size) {
    const connections = new Connections(queue.port);
    await connections.dialMany(count.idle[size]);
    await sleep(seconds.idle[size] * 1000);
    const left = connections.open;
    connections.resetAll();
    return `${left} still open at the end`;
  },
};

const slowHeads: Attack = {
  name: 'slow heads',
  about: (size) => `${count.slow[size]} requests whose head comes at a byte a second`,
  run: ({ queue }, size) => dripFeed(queue.port, size, 'GET /health HTTP/1.1\r\nhost: 127.0.0.1'),
};

const slowBodies: Attack = {
  name: 'slow bodies',
  about: (size) => `${count.slow[size]} requests whose body comes at a byte a second`,
  run: ({ queue }, size) =>
    dripFeed(queue.port, size, `${head('POST', '/v1/chat/completions', queue.port, 100_000)}{"model":"`),
};

const large: Attack = {
  name: 'large bodies',
  about: (size) => `${count.large[size]} requests of 19 MiB at once, one emoji in each`,
  async run({ queue }, size) {
    const body = new TextEncoder().encode(chat(`😀${'x'.repeat(19 * MIB)}`));
    return await volley(count.large[size], () => post(`${queue.url}/v1/chat/completions`, body));
  },
};

const waiting: Attack = {
  name: 'many callers with long prompts',
  about: (size) => `${count.waiting[size]} requests of 2 MiB at once, one emoji in each`,
  async run({ queue }, size) {
    const body = new TextEncoder().encode(chat(`😀${'x'.repeat(2 * MIB)}`));
    return await volley(count.waiting[size], () => post(`${queue.url}/v1/chat/completions`, body));
  },
};

const many: Attack = {
  name: 'many small requests',
  about: (size) => `${count.many[size]} requests at once`,
  async run({ queue }, size) {
    const body = chat('x');
    return await volley(count.many[size], () => post(`${queue.url}/v1/chat/completions`, body));
  },
};

const nested: Attack = {
  name: 'nested JSON',
  about: (size) => `${count.nested[size]} bodies of 4 and 18 MB of brackets to each route that takes one`,
  async run({ queue }, size) {
    const bodies = [
      '['.repeat(4e6),
      '{"a":'.repeat(8e5),
      `{"model":"default","messages":${'['.repeat(18e6)}`,
    ];
    const paths = ['/v1/chat/completions', '/api/jobs', '/api/heartbeats'];
    const shots = paths.flatMap((path) => bodies.map((body) => [path, body] as const));
    let outcome = '';
    for (let round = 0; round < count.nested[size]; round++) {
      outcome = await volley(shots.length, (index) => {
        const [path, body] = shots[index]!;
        return post(queue.url + path, body);
      });
    }
    return outcome;
  },
};

const strangers: Attack = {
  name: 'strange queue ids and keys',
  about: (size) => `${count.strangers[size]} requests for queues, files and sockets that nobody made`,
  async run({ queue }, size) {
    return await volley(count.strangers[size], async (index) => {
      const id = randomBytes(6).toString('hex');
      const ticket = `fence_token=1&key=${id}&queue_id=${index % 2 ? id : 'vllm-queue'}`;
      const ways: [string, RequestInit][] = [
        [`/jobs/${id}/payload?${ticket}`, {}],
        [`/jobs/${id}/result?${ticket}`, { method: 'PUT', body: '{}' }],
        [`/api/jobs/${id}?queue_id=${id}`, {}],
        [`/v1/models?queue_id=${id}`, {}],
        [`/ws?queue_id=${id}&config_id=c&worker_id=${id}`, {}],
        [`/answers?queue_id=${id}&worker_id=${id}&session_id=${id}`, {}],
      ];
      const [path, init] = ways[index % ways.length]!;
      return await status(fetch(queue.url + path, { ...init, ...once() }));
    });
  },
};

const abandoned: Attack = {
  name: 'abandoned long polls and answers',
  about: (size) => `${count.abandoned[size]} callers that hang up while they wait`,
  async run({ queue }, size) {
    const id = `abandoned-${randomBytes(4).toString('hex')}`;
    await fetch(`${queue.url}/api/jobs`, {
      method: 'POST',
      body: JSON.stringify({
        id,
        job_type: 'chat_completion',
        config_id: 'nobody',
        payload: { messages: [] },
      }),
    });
    const connections = new Connections(queue.port);
    const body = chat('x', { max_tokens: 5000, stream: true });
    const poll = head('GET', `/api/jobs/${id}?wait=300`, queue.port, 0);
    const ask = head('POST', '/v1/chat/completions', queue.port, body.length) + body;
    await connections.dialMany(count.abandoned[size] / 2, poll);
    await connections.dialMany(count.abandoned[size] / 2, ask);
    await sleep(1000);
    connections.resetAll();
    return `answers that had begun: ${told(connections.answers)}`;
  },
};

const unread: Attack = {
  name: 'answers that nobody reads',
  about: (size) =>
    `${count.unread[size]} streams of 24 MB, more than the kernel takes, whose callers do not read`,
  async run({ queue }, size) {
    const connections = new Connections(queue.port);
    const body = chat('x', { max_tokens: 100_000, stream: true, ignore_eos: true });
    const sockets = await connections.dialMany(
      count.unread[size],
      head('POST', '/v1/chat/completions', queue.port, body.length) + body,
    );
    for (const socket of sockets) socket.pause();
    await sleep(seconds.unread[size] * 1000);
    connections.resetAll();
    return 'hung up';
  },
};

const dense: Attack = {
  name: 'millions of small values',
  about: (size) => `${count.dense[size]} bodies and frames of 12 MB each, full of empty objects`,
  async run({ queue }, size) {
    const user = `[${'{},'.repeat(4_000_000)}{}]`;
    const job = `{"id":"dense","job_type":"chat_completion","config_id":"nobody","payload":{"user":${user}}}`;
    const ways = [
      () => post(`${queue.url}/api/jobs`, job),
      () => post(`${queue.url}/v1/chat/completions`, `{"model":"default","user":${user}}`),
      () => frame(`${queue.url.replace(/^http/, 'ws')}/api/jobs/socket`, `{"type":"submit","jobs":[${job}]}`),
    ];
    return await volley(count.dense[size], (index) => ways[index % ways.length]!());
  },
};

/** What a job socket answers to one frame. */
async function frame(url: string, text: string): Promise<string> {
  const socket = new WebSocket(url);
  const outcome = await new Promise<string>((resolve) => {
    socket.onopen = () => socket.send(text);
    socket.onerror = () => resolve('broken');
    socket.onclose = ({ code }) => resolve(String(code));
    socket.onmessage = ({ data }) => {
      const { type, error } = JSON.parse(String(data)) as { type: string; error?: { status: number } };
      resolve(error ? `${type} ${error.status}` : type);
    };
  });
  socket.close();
  return outcome;
}

export const ATTACKS: readonly Attack[] = [
  strangers,
  idle,
  slowHeads,
  slowBodies,
  many,
  nested,
  dense,
  large,
  waiting,
  abandoned,
  unread,
];

/** How many of what, and for how long. */
const count = {
  idle: { short: 300, full: 3000 },
  slow: { short: 50, full: 500 },
  large: { short: 24, full: 100 },
  waiting: { short: 200, full: 2000 },
  many: { short: 500, full: 5000 },
  nested: { short: 1, full: 5 },
  dense: { short: 6, full: 30 },
  strangers: { short: 300, full: 3000 },
  abandoned: { short: 200, full: 2000 },
  unread: { short: 20, full: 30 },
} satisfies Record<string, Record<Size, number>>;

const seconds = {
  idle: { short: 3, full: 20 },
  slow: { short: 4, full: 60 },
  unread: { short: 4, full: 20 },
} satisfies Record<string, Record<Size, number>>;

/** No request of an attack lasts longer, ms. */
const LIMIT_MS = 120_000;

function chat(content: string, more: Record<string, unknown> = {}): string {
  return JSON.stringify({ model: 'default', messages: [{ role: 'user', content }], max_tokens: 2, ...more });
}

/** For a request whose connection ends with it, since the queue would keep it for a minute. */
function once(): RequestInit {
  return { headers: { connection: 'close' }, signal: AbortSignal.timeout(LIMIT_MS) };
}

function post(url: string, body: string | Uint8Array<ArrayBuffer>): Promise<string> {
  return status(fetch(url, { method: 'POST', body, ...once() }));
}

/**
 * The status of an answer, or how the connection ended. An error that comes after the answer has begun breaks it, on
 * purpose (docs/decisions/early-responses.md): that is no connection without an answer.
 */
async function status(asked: Promise<Response>): Promise<string> {
  let begun = '';
  try {
    const response = await asked;
    begun = `${response.status}, then `;
    await response.arrayBuffer();
    const again = response.headers.has('retry-after') ? ' with Retry-After' : '';
    return response.status + again;
  } catch (error) {
    const { name, cause } = error as Error & { cause?: { code?: string } };
    return begun + (name === 'TimeoutError' ? 'no answer' : (cause?.code ?? name));
  }
}

/** Counts of how each of many shots ended. */
async function volley(shots: number, shoot: (index: number) => Promise<string>): Promise<string> {
  const outcomes = new Map<string, number>();
  await Promise.all(
    Array.from({ length: shots }, async (_, index) => {
      const outcome = await shoot(index);
      outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
    }),
  );
  return told(outcomes);
}

/** Requests that begin with a text and go on at a byte a second. */
async function dripFeed(port: number, size: Size, beginning: string): Promise<string> {
  const connections = new Connections(port);
  const sockets = await connections.dialMany(count.slow[size], beginning);
  for (let second = 0; second < seconds.slow[size]; second++) {
    for (const socket of sockets) socket.write('x');
    await sleep(1000);
  }
  const left = connections.open;
  connections.resetAll();
  return `${left} still open at the end, answers: ${told(connections.answers)}`;
}

function told(counts: Map<string, number>): string {
  const parts = [...counts].sort().map(([what, n]) => `${what} × ${n}`);
  return parts.join(', ') || 'none';
}
