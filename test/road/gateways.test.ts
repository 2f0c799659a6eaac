import { request } from 'node:http';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { chatIds } from '../../src/simulator/fields.ts';
import { tokenSource } from '../../src/simulator/text.ts';
import { readEvents } from '../engine/contract/calls.ts';
import { heldBy, isAlive, processOf } from '../support/gateways.ts';
import { until } from '../support/poll.ts';
import {
  chatJob,
  engineRunning,
  HELD,
  type QueueProcess,
  readyWorker,
  setPace,
  settled,
  startQueue,
  submit,
  tearDown,
  type WorkerProcess,
} from '../support/road.ts';

/** Streams do not notice what happens to the other processes of a queue with gateways of its own. */
let queue: QueueProcess;
let worker: WorkerProcess;

const STREAMS = 500;
const TOKENS = 60;

beforeAll(async () => {
  queue = await startQueue({ env: { QUEUE_GATEWAYS: '2', QUEUE_RECONNECT_GRACE_SECONDS: '10' } });
  worker = await readyWorker(queue.url, 'only', {
    engineArgs: `${HELD} --max-num-seqs 1000`,
    // A stream that broke would go on elsewhere, unnoticed by its caller.
    env: { CASOLA_MAX_JOBS: '1000', MIGRATION: 'off' },
  });
});
afterAll(tearDown);

function messagesOf(at: number) {
  return [{ role: 'user', content: `Tell me about number ${at}.` }];
}

/** What the engine says that nobody disturbs. */
function uncut(at: number): string {
  const messages = messagesOf(at);
  const ids = chatIds(
    messages,
    messages.map(({ content }) => content),
    'tiny',
  );
  const source = tokenSource(ids);
  return Array.from({ length: TOKENS }, () => source.next().text).join('');
}

interface Chunk {
  choices: { delta: { content?: string }; finish_reason: string | null }[];
  usage?: { completion_tokens: number };
}

/** A stream over a connection of its own. */
interface Stream {
  at: number;
  /** The port of the caller's end. */
  port: number;
  /** Whether tokens have come. */
  hasBegun(): boolean;
  /** The number of characters that have come. */
  length(): number;
  /** All that came; rejects if the connection broke. */
  whole: Promise<string>;
}

function ask(at: number): Promise<Stream> {
  const body = JSON.stringify({
    model: 'tiny',
    messages: messagesOf(at),
    stream: true,
    stream_options: { include_usage: true },
    ignore_eos: true,
    max_tokens: TOKENS,
  });
  return new Promise((resolve, reject) => {
    const asked = request(
      `${queue.url}/v1/chat/completions`,
      { method: 'POST', agent: false },
      (response) => {
        let text = '';
        response.setEncoding('utf8').on('data', (more: string) => {
          text += more;
        });
        const whole = new Promise<string>((done, broken) => {
          response.once('end', () => done(text)).once('error', broken);
        });
        whole.catch(() => {});
        const port = response.socket.localPort!;
        expect(response.statusCode).toBe(200);
        resolve({ at, port, hasBegun: () => text.includes('"content":"'), length: () => text.length, whole });
      },
    );
    asked.once('error', reject).end(body);
  });
}

/** The ids of both gateways. */
async function gateways(): Promise<[number, number]> {
  return [await processOf(queue, 'gateway-1'), await processOf(queue, 'gateway-2')];
}

/** Opens many streams, and waits until each has begun. */
async function begin(count: number): Promise<Stream[]> {
  await setPace(worker.engineUrl, 1000);
  const streams = await Promise.all(Array.from({ length: count }, (_, at) => ask(at)));
  await until(() => streams.every((stream) => stream.hasBegun()), 'every stream has begun');
  return streams;
}

/** Reads a stream to its end, and holds it against one that nobody disturbed. */
async function expectUnbroken({ at, whole }: Stream): Promise<void> {
  const body = (await whole).replaceAll(/^: .*\n\n/gm, '');
  const { events, done } = await readEvents(new Response(body));
  const chunks = events as unknown as Chunk[];
  expect(done, body.slice(-500)).toBe(true);
  const choices = chunks.flatMap((chunk) => chunk.choices);
  expect(choices.map(({ delta }) => delta.content ?? '').join('')).toBe(uncut(at));
  expect(choices.filter(({ finish_reason }) => finish_reason)).toHaveLength(1);
  expect(chunks.flatMap(({ usage }) => usage ?? [])).toMatchObject([{ completion_tokens: TOKENS }]);
}

/** The requests that are counted, and their tokens. */
async function counted(): Promise<{ requests: number; output: number }> {
  const response = await fetch(`${queue.url}/api/usage?days=2`);
  const { total } = (await response.json()) as { total: { requests: number; output: number } };
  return { requests: total.requests, output: total.output };
}

async function relayedStreams(): Promise<number> {
  const text = await (await fetch(`${queue.url}/metrics`)).text();
  return Number(/^worker_vllm_relay_streams(?:\{[^}]*\})? (\d+)$/m.exec(text)?.[1]);
}

/**
 * Does something in the middle of many streams, and expects that none of them notices, and that all are counted.
 * @param disturb returns what it has asked for itself, to be counted too
 */
async function expectUnnoticed(
  disturb: (streams: readonly Stream[]) => Promise<typeof NOTHING>,
): Promise<void> {
  const before = await counted();
  const streams = await begin(STREAMS);
  const own = await disturb(streams);
  await setPace(worker.engineUrl, 20);
  await Promise.all(streams.map(expectUnbroken));
  const wanted = {
    requests: before.requests + STREAMS + own.requests,
    output: before.output + STREAMS * TOKENS + own.output,
  };
  await until(async () => (await counted()).requests >= wanted.requests, 'all streams are counted');
  expect(await counted()).toEqual(wanted);
}

const NOTHING = { requests: 0, output: 0 };

describe('streams through gateways', () => {
  it.each(['SIGKILL', 'SIGTERM'] as const)('do not notice that the owner gets %s', async (signal) => {
    const owner = await processOf(queue, 'owner');
    await expectUnnoticed(async () => {
      process.kill(owner, signal);
      // What is asked now waits for the next owner and its workers.
      const late = ask(STREAMS);
      const job = submit(queue.url, chatJob(5));
      await processOf(queue, 'owner', owner);
      // The next owner knows of the streams of all gateways.
      await until(async () => (await relayedStreams()) >= STREAMS, 'the metrics have all streams');
      await setPace(worker.engineUrl, 20);
      await expectUnbroken(await late);
      expect(await settled(queue.url, (await job).id)).toMatchObject({ state: 'succeeded', attempts: 1 });
      return { requests: 2, output: TOKENS + 5 };
    });
  });

  it('do not notice that one gateway after the other drains, and that the worker’s sockets move', async () => {
    const before = await gateways();
    await expectUnnoticed(async (streams) => {
      for (const [index, gateway] of before.entries()) {
        process.kill(gateway, 'SIGTERM');
        await processOf(queue, `gateway-${index + 1}`, gateway);
      }
      const lengths = streams.map((stream) => stream.length());
      await until(() => streams.every((stream, at) => stream.length() > lengths[at]!), 'all go on');
      // Each of them has streams to the end.
      for (const gateway of before) expect(isAlive(gateway)).toBe(true);
      return NOTHING;
    });
    await until(() => !before.some(isAlive), 'the gateways that drain have ended');
    // The queue logs the end a moment after the process is gone.
    await queue.process.waitForLine(new RegExp(`gateway-1 \\(process ${before[0]}\\) has ended with code 0`));
  });

  it('break with their gateway when it is killed, and no others do', async () => {
    const [killed, other] = await gateways();
    const streams = await begin(STREAMS);
    const held = heldBy(queue, killed);
    const ofKilled = streams.filter(({ port }) => held.has(port));
    const ofOther = streams.filter((stream) => !ofKilled.includes(stream));
    expect(ofKilled.length).toBeGreaterThan(0);
    expect(ofOther.length).toBeGreaterThan(0);
    process.kill(killed, 'SIGKILL');
    const broken = await Promise.allSettled(ofKilled.map(({ whole }) => whole));
    expect(new Set(broken.map(({ status }) => status))).toEqual(new Set(['rejected']));
    await setPace(worker.engineUrl, 20);
    await Promise.all(ofOther.map(expectUnbroken));
    await until(
      async () => (await engineRunning(worker.engineUrl)) === 0,
      'the engine runs nothing for nobody',
    );
    await processOf(queue, 'gateway-1', killed);
    expect(isAlive(other)).toBe(true);
    await expectUnbroken(await ask(1));
  });

  it('break when their gateway gets a second signal while it drains', async () => {
    const [drained] = await gateways();
    const streams = await begin(32);
    const held = heldBy(queue, drained);
    const own = streams.filter(({ port }) => held.has(port));
    expect(own.length).toBeGreaterThan(0);
    process.kill(drained, 'SIGTERM');
    await processOf(queue, 'gateway-1', drained);
    // The same signal within a moment would count as one.
    process.kill(drained, 'SIGINT');
    const ended = await Promise.allSettled(own.map(({ whole }) => whole));
    expect(ended.map(({ status }) => status)).not.toContain('fulfilled');
    await until(() => !isAlive(drained), 'it has ended');
    await setPace(worker.engineUrl, 20);
    await Promise.all(streams.filter((stream) => !own.includes(stream)).map(expectUnbroken));
  });
});
