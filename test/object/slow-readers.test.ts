import { get, type IncomingMessage } from 'node:http';
import OpenAI from 'openai';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { until } from '../support/poll.ts';
import { type QueueProcess, startQueueProcess } from '../support/queue-process.ts';
import { readyWorker, stateFolder, tearDown } from '../support/road.ts';

/** Readers of a stream in the background who read far slower than it is made. */
let queue: QueueProcess;

const MIB = 1024 * 1024;
const TOKENS = 70_000;
const READERS = 40;
/** The most bytes that the queue has in memory for a reader: a few pages of events, whatever the length of the answer. */
const MOST_BYTES = 2 * MIB;
/** A slow reader reads so many bytes every so many ms: 10 KiB/s. */
const PACE = { bytes: 1024, everyMs: 100 };

beforeAll(async () => {
  queue = await startQueueProcess({ host: '127.0.0.1', port: 0, stateDir: stateFolder(), bindings: {} });
  await readyWorker(queue.url, 'w', { engineArgs: '--max-model-len 4m' });
});
afterAll(async () => {
  await queue.stop();
  await tearDown();
});

const client = () => new OpenAI({ baseURL: `${queue.url}/v1`, apiKey: 'none', maxRetries: 0 });

/** Makes a response in the background that streams. @returns its id */
async function begin(): Promise<string> {
  const asked = { model: 'tiny', background: true, stream: true, input: 'Read me slowly.' } as const;
  const stream = await client().responses.create({
    ...asked,
    max_output_tokens: TOKENS,
    // A field of the engine.
    ...{ ignore_eos: true },
  });
  for await (const event of stream) if (event.type === 'response.created') return event.response.id;
  throw new Error('the stream has no beginning');
}

const address = (id: string) => `${queue.url}/v1/responses/${id}?stream=true`;

class SlowReader {
  readonly #response: IncomingMessage;
  readonly #timer: NodeJS.Timeout;
  readonly #pieces: Buffer[] = [];

  private constructor(response: IncomingMessage) {
    this.#response = response;
    this.#timer = setInterval(() => {
      const piece: Buffer | null = response.read(PACE.bytes);
      if (piece !== null) this.#pieces.push(piece);
    }, PACE.everyMs);
  }

  static async of(id: string): Promise<SlowReader> {
    const response = await new Promise<IncomingMessage>((came, failed) =>
      get(address(id), { agent: false }, came).once('error', failed),
    );
    return new SlowReader(response);
  }

  get bytes(): number {
    return this.#pieces.reduce((sum, { byteLength }) => sum + byteLength, 0);
  }

  /** Reads the rest as fast as it comes. @returns all that was read */
  async hurry(): Promise<string> {
    clearInterval(this.#timer);
    for await (const piece of this.#response) this.#pieces.push(piece as Buffer);
    return Buffer.concat(this.#pieces).toString();
  }

  leave(): void {
    clearInterval(this.#timer);
    this.#response.destroy();
  }
}

/** Makes a response and reads it to its end, with others who read slowly. @returns what was read, and the slow ones */
async function readWhole(slow: number) {
  const id = await begin();
  const readers = await Promise.all(Array.from({ length: slow }, () => SlowReader.of(id)));
  const text = await (await fetch(address(id))).text();
  const { status } = await client().responses.retrieve(id);

  return { text, status, readers };
}

it('readers at 10 KiB/s hold nobody, and the queue holds no answer for them', async () => {
  const { text, status, readers } = await readWhole(READERS);
  // The response and its other reader have come to their end while the slow ones are at its beginning.
  expect(status).toBe('incomplete');
  expect(text.length).toBeGreaterThan(10 * MIB);
  for (const reader of readers) expect(reader.bytes).toBeLessThan(text.length / 10);
  const [first, ...others] = readers;
  const before = await queue.heldBytes();
  for (const reader of others) reader.leave();
  const bytesOfEach = async () => (before - (await queue.heldBytes())) / others.length;
  // Until the queue has noticed that they are gone, it has their bytes still.
  let freed = 0;
  await until(async () => {
    const now = await bytesOfEach();
    const isSteady = now > 0 && Math.abs(now - freed) < MOST_BYTES / 20;
    freed = now;
    return isSteady;
  }, 'the queue to free what it held for those who left');
  expect(freed).toBeLessThan(MOST_BYTES);
  expect(await first!.hurry()).toBe(text);
}, 300_000);
