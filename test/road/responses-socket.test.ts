import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { until } from '../support/poll.ts';
import {
  engineRunning,
  type QueueProcess,
  readyWorker,
  startQueue,
  tearDown,
  type WorkerProcess,
} from '../support/road.ts';

/** Responses on a WebSocket, on each host. */
let queue: QueueProcess;
let worker: WorkerProcess;

beforeAll(async () => {
  queue = await startQueue();
  worker = await readyWorker(queue.url, 'a', { engineArgs: '--inter-token-latency-ms 5' });
});
afterAll(tearDown);

interface Response {
  id: string;
  status: string;
  previous_response_id: string | null;
  output: { content: { text: string }[] }[];
}

interface Frame {
  type: string;
  sequence_number?: number;
  delta?: string;
  response?: Response;
  status?: number;
  error?: { message: string; type: string; code: string | null; param: string | null };
}

const ENDS = /^(?:error|response\.(?:completed|incomplete|failed))$/;

/** Opens the socket. @returns what sends frames, and the frames that came */
async function dialled() {
  const socket = new WebSocket(`${queue.url.replace(/^http/, 'ws')}/v1/responses`);
  const frames: Frame[] = [];
  socket.addEventListener('message', ({ data }) => frames.push(JSON.parse(String(data))));
  await new Promise((open, fail) => {
    socket.addEventListener('open', open);
    socket.addEventListener('error', fail);
  });
  /** Sends something and waits for what ends its answer. @returns the frames of the answer */
  const say = async (data: string | Uint8Array<ArrayBuffer>): Promise<Frame[]> => {
    const before = frames.length;
    socket.send(data);
    await until(
      async () => frames.slice(before).some(({ type }) => ENDS.test(type)),
      'the end of the answer',
    );
    return frames.slice(before);
  };
  const create = (more: object) =>
    JSON.stringify({ type: 'response.create', model: 'tiny', input: 'hi', max_output_tokens: 4, ...more });
  return { socket, frames, say, create };
}

const statusOf = async (id: string) => (await fetch(`${queue.url}/v1/responses/${id}`)).status;

/** Checks that an answer has each event once, in its order. @returns the response at its end */
function expectWhole(frames: Frame[]): Response {
  const types = frames.map(({ type }) => type);
  expect(types.slice(0, 2)).toEqual(['response.created', 'response.in_progress']);
  expect(frames.map(({ sequence_number }) => sequence_number)).toEqual(frames.map((_, at) => at));
  const last = frames.at(-1)!;
  expect(last.type).toBe('response.incomplete');
  const { output } = last.response!;
  const said = frames.map(({ type, delta }) => (type === 'response.output_text.delta' ? delta : '')).join('');
  expect(said).not.toBe('');
  expect(said).toBe(output.flatMap(({ content = [] }) => content.map(({ text }) => text)).join(''));
  return last.response!;
}

describe('a WebSocket', () => {
  it.each([{ store: false }, { store: true }])('goes on from its last response (%j)', async ({ store }) => {
    const { socket, say, create } = await dialled();
    const first = expectWhole(await say(create({ store })));
    expect(await statusOf(first.id)).toBe(store ? 200 : 404);
    const second = expectWhole(await say(create({ store, previous_response_id: first.id })));
    expect(second).toMatchObject({ previous_response_id: first.id });
    expect(second.id).not.toBe(first.id);
    const [answer] = await say(create({ store: false, previous_response_id: first.id })).then((all) =>
      all.slice(-1),
    );
    // What is stored nowhere is remembered until the next response.
    if (store) expect(answer).toMatchObject({ type: 'response.incomplete' });
    else expect(answer).toMatchObject({ status: 400, error: { code: 'previous_response_not_found' } });
    socket.close();
  });

  it('takes a frame as bytes too', async () => {
    const { socket, say, create } = await dialled();
    expectWhole(await say(new TextEncoder().encode(create({}))));
    socket.close();
  });

  it('refuses bad frames in words, and stays open', async () => {
    const { socket, say, create } = await dialled();
    const bad: [data: string, error: object][] = [
      ['no JSON', { message: expect.stringContaining('"response.create"'), code: 'invalid_frame' }],
      ['{"type": "response.steer"}', { code: 'invalid_frame', param: 'type' }],
      [create({ background: true }), { message: expect.stringContaining('by HTTP'), param: 'background' }],
      [create({ input: 5 }), { param: 'input' }],
      [create({ previous_response_id: 'resp_none' }), { code: 'previous_response_not_found' }],
    ];
    for (const [data, error] of bad) {
      const frames = await say(data);
      expect(frames).toMatchObject([{ type: 'error', status: 400, error }]);
      expect(frames[0]!.error).toMatchObject({ type: 'invalid_request_error' });
    }
    const unknown = await say(create({ model: 'no-such-model' }));
    expect(unknown).toMatchObject([{ type: 'error', status: 404, error: { code: 'model_not_found' } }]);
    expectWhole(await say(create({})));
    socket.close();
  });

  it('that closes stops the engine', async () => {
    const { socket, frames, create } = await dialled();
    socket.send(create({ max_output_tokens: 30_000, ignore_eos: true }));
    await until(async () => frames.some(({ type }) => type.endsWith('.delta')), 'the first words');
    socket.close();
    await until(async () => (await engineRunning(worker.engineUrl)) === 0, 'the engine to stop');
  });
});
