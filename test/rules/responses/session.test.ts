import { describe, expect, it } from 'vitest';
import { ResponsesSession } from '../../../src/features/responses/gateway/session.ts';
import { eventText } from '../../../src/features/responses/response-object.ts';
import type { Fields } from '../../../src/features/responses/types.ts';
import { HttpError } from '../../../src/gateway/errors.ts';

/** A session over a gateway that answers each request when the test says so. */
class Gateway {
  readonly asked: Fields[] = [];
  readonly sent: Fields[] = [];
  /** The bytes that the bodies of all callers may still have. */
  room = 1_000_000;
  answer: (body: Fields) => Response | Promise<Response> = (body) => this.made(body);
  readonly session = new ResponsesSession({
    create: async (body) => {
      const fields = JSON.parse(body) as Fields;
      this.asked.push(fields);
      return await this.answer(fields);
    },
    hold: (bytes) => {
      if (bytes > this.room) throw new HttpError(503, 'Too many bodies at once.', 'too_many_bodies');
      this.room -= bytes;
      return () => {
        this.room += bytes;
      };
    },
    send: (text) => void this.sent.push(JSON.parse(text) as Fields),
    now: () => 0,
    newId: () => `resp_warm_${this.sent.length}`,
  });

  /** A whole answer, in pieces that end anywhere. */
  made({ store = true }: Fields, status = 'completed'): Response {
    const id = `resp_${this.asked.length}`;
    const output = [{ type: 'message', role: 'assistant', content: `said by ${id}` }];
    const response = { id, store, previous_response_id: null };
    const text = [
      ': waiting\n\n',
      eventText({
        type: 'response.created',
        sequence_number: 0,
        response: { ...response, status: 'in_progress' },
      }),
      eventText({ type: 'response.output_text.delta', sequence_number: 1, delta: 'é' }),
      eventText({
        type: `response.${status}`,
        sequence_number: 2,
        response: { ...response, status, output },
      }),
    ].join('');
    const bytes = new TextEncoder().encode(text);
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => {
        for (let at = 0; at < bytes.length; at += 7) controller.enqueue(bytes.slice(at, at + 7));
        controller.close();
      },
    });
    return new Response(body, { headers: { 'content-type': 'text/event-stream' } });
  }

  /** Sends a frame and waits for what ends its answer. */
  async say(frame: Fields): Promise<Fields> {
    const before = this.sent.length;
    this.session.onMessage(JSON.stringify({ type: 'response.create', ...frame }));
    await expect.poll(() => this.sent.slice(before).some(isLast)).toBe(true);
    return this.sent.at(-1)!;
  }
}

const isLast = ({ type }: Fields) =>
  /^(?:error|response\.(?:completed|incomplete|failed))$/.test(String(type));
const user = (text: string) => ({
  type: 'message',
  role: 'user',
  content: [{ type: 'input_text', text }],
});

describe('a connection for responses', () => {
  it('sends each event as a frame, and asks for a stream', async () => {
    const gateway = new Gateway();
    await gateway.say({ input: 'a', model: 'm', stream: false });
    expect(gateway.asked).toEqual([{ input: 'a', model: 'm', stream: true }]);
    expect(gateway.sent.map(({ type, sequence_number }) => [type, sequence_number])).toEqual([
      ['response.created', 0],
      ['response.output_text.delta', 1],
      ['response.completed', 2],
    ]);
  });

  it('goes on from its last response, which is not stored', async () => {
    const gateway = new Gateway();
    await gateway.say({ input: 'a', store: false, previous_response_id: 'resp_stored' });
    await gateway.say({ input: 'b', store: false, previous_response_id: 'resp_1' });
    const last = await gateway.say({ input: 'c', previous_response_id: 'resp_2' });
    const said = (id: string) => ({ type: 'message', role: 'assistant', content: `said by ${id}` });
    expect(gateway.asked[2]).toEqual({
      input: [user('a'), said('resp_1'), user('b'), said('resp_2'), user('c')],
      previous_response_id: 'resp_stored',
      stream: true,
    });
    expect(last).toMatchObject({ response: { previous_response_id: 'resp_2' } });
  });

  it('leaves a response that is stored, or that it does not remember, to the queue', async () => {
    const gateway = new Gateway();
    await gateway.say({ input: 'a' });
    await gateway.say({ input: 'b', previous_response_id: 'resp_1' });
    await gateway.say({ input: 'c', store: false, conversation: 'conv_1' });
    await gateway.say({ input: 'd', previous_response_id: 'resp_3' });
    gateway.answer = (body) => gateway.made(body, 'failed');
    await gateway.say({ input: 'e', store: false });
    await gateway.say({ input: 'f', previous_response_id: 'resp_5' });
    const ids = gateway.asked.map(({ input, previous_response_id: id }) => [input, id]);
    expect(ids.filter(([, id]) => id !== undefined)).toEqual([
      ['b', 'resp_1'],
      ['d', 'resp_3'],
      ['f', 'resp_5'],
    ]);
  });

  it('prepares a response without asking anybody', async () => {
    const gateway = new Gateway();
    const warm = (await gateway.say({ input: 'a', store: false, generate: false })).response as Fields;
    expect([gateway.asked, warm.status, warm.output]).toEqual([[], 'completed', []]);
    await gateway.say({ input: 'b', previous_response_id: warm.id });
    expect(gateway.asked[0]).toEqual({ input: [user('a'), user('b')], stream: true });
  });

  it('answers faults with frames, and goes on', async () => {
    const gateway = new Gateway();
    expect(await gateway.say({ type: 'response.steer' })).toMatchObject({ status: 400 });
    expect(await gateway.say({ background: true })).toMatchObject({ error: { param: 'background' } });
    expect(await gateway.say({ input: 5 })).toMatchObject({ status: 400, error: { param: 'input' } });
    gateway.answer = () => Response.json({ error: { code: 'conversation_locked' } }, { status: 400 });
    const refused = await gateway.say({ input: 'a' });
    expect(refused).toEqual({ type: 'error', status: 400, error: { code: 'conversation_locked' } });
    gateway.answer = () => Promise.reject(new Error('lost'));
    expect(await gateway.say({ input: 'b' })).toMatchObject({ status: 500 });
    gateway.answer = (body) => gateway.made(body);
    expect(await gateway.say({ input: 'c' })).toMatchObject({ type: 'response.completed' });
  });

  it('makes one response at a time, and lets a number of frames wait', async () => {
    const gateway = new Gateway();
    const open = Promise.withResolvers<void>();
    gateway.answer = async (body) => {
      await open.promise;
      return gateway.made(body);
    };
    for (let at = 0; at < 17; at++) gateway.session.onMessage('{"type": "response.create"}');
    await expect.poll(() => gateway.asked.length).toBe(1);
    expect(gateway.sent).toMatchObject([{ type: 'error', status: 429 }]);
    open.resolve();
    await expect.poll(() => gateway.sent.filter(isLast).length).toBe(17);
    expect(gateway.asked).toHaveLength(16);
  });

  it('counts the frames that wait against the memory of all bodies', async () => {
    const gateway = new Gateway();
    const open = Promise.withResolvers<void>();
    gateway.answer = async (body) => {
      await open.promise;
      return gateway.made(body);
    };
    const frame = JSON.stringify({ type: 'response.create', input: 'x'.repeat(400_000) });
    gateway.session.onMessage(frame);
    await expect.poll(() => gateway.asked.length).toBe(1);
    // The request that was made of the first one counts its own.
    expect(gateway.room).toBe(1_000_000);
    for (let at = 0; at < 3; at++) gateway.session.onMessage(frame);
    const error = { code: 'too_many_bodies', type: 'service_unavailable_error' };
    expect(gateway.sent).toMatchObject([{ type: 'error', status: 503, error }]);
    expect(gateway.room).toBe(1_000_000 - 2 * frame.length);
    gateway.session.onClose();
    expect(gateway.room).toBe(1_000_000);
    open.resolve();
    await new Promise((done) => setTimeout(done, 20));
    expect(gateway.room).toBe(1_000_000);
  });

  it('counts what it remembers against the memory of all bodies, and forgets it where there is no room', async () => {
    const gateway = new Gateway();
    const long = 'x'.repeat(300_000);
    await gateway.say({ input: long, store: false });
    const once = 1_000_000 - gateway.room;
    expect(once).toBeGreaterThan(300_000);
    expect(once).toBeLessThan(301_000);
    await gateway.say({ input: long, store: false, previous_response_id: 'resp_1' });
    expect(1_000_000 - gateway.room).toBeGreaterThan(600_000);
    // Only the last one is remembered.
    await gateway.say({ input: 'short', store: false });
    expect(gateway.room).toBeGreaterThan(999_000);
    gateway.answer = (body) => {
      const made = gateway.made(body);
      gateway.room = 100;
      return made;
    };
    await gateway.say({ input: 'a'.repeat(200), store: false });
    gateway.answer = (body) => gateway.made(body);
    gateway.room = 1_000_000;
    await gateway.say({ input: 'b', store: false, previous_response_id: 'resp_4' });
    // The gateway refuses an id that the connection does not remember.
    expect(gateway.asked.at(-1)).toMatchObject({ previous_response_id: 'resp_4' });
    expect(gateway.room).toBeLessThan(1_000_000);
    gateway.session.onClose();
    expect(gateway.room).toBe(1_000_000);
  });

  it('leaves the answer, however silent it is, when it is closed', async () => {
    const gateway = new Gateway();
    const left = Promise.withResolvers<void>();
    const body = new ReadableStream<Uint8Array>({ cancel: () => left.resolve() });
    gateway.answer = () => new Response(body, { headers: { 'content-type': 'text/event-stream' } });
    gateway.session.onMessage('{"type": "response.create"}');
    await expect.poll(() => gateway.asked.length).toBe(1);
    gateway.session.onClose();
    await left.promise;
  });

  it('forgets the frames that wait when it is closed', async () => {
    const gateway = new Gateway();
    for (let at = 0; at < 3; at++) gateway.session.onMessage('{"type": "response.create"}');
    await expect.poll(() => gateway.asked.length).toBe(1);
    gateway.session.onClose();
    await new Promise((done) => setTimeout(done, 20));
    expect(gateway.asked).toHaveLength(1);
  });
});
