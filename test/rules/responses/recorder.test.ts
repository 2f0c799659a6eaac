import { describe, expect, it } from 'vitest';
import { recorded } from '../../../src/features/responses/gateway/recorder.ts';
import { eventsIn } from '../../../src/features/responses/object/job-end.ts';
import { eventText } from '../../../src/features/responses/response-object.ts';
import type { EndedResponse, Fields } from '../../../src/features/responses/types.ts';

const RESPONSE = { id: 'resp_engine', object: 'response', status: 'in_progress', output: [] };
/** What its caller gets of it: clients compare these fields with null, and vLLM leaves `error` out. */
const OURS = { ...RESPONSE, id: 'resp_ours', error: null, incomplete_details: null };
const CREATED = eventText({ type: 'response.created', sequence_number: 0, response: RESPONSE });
const DELTA = eventText({ type: 'response.output_text.delta', sequence_number: 7, delta: 'an "error"' });
const ERROR = `event: error\ndata: {"type":"error","sequence_number":0,"code":"engine_died","message":"it is gone","error":{"message":"it is gone"}}\n\n`;

/** The stream of an engine, which breaks behind these pieces or ends. */
function streamed(pieces: string[], breaks: boolean): Response {
  const left = pieces.values();
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      const { value, done } = left.next();
      if (!done) controller.enqueue(new TextEncoder().encode(value));
      else if (breaks) controller.error(new Error('broken'));
      else controller.close();
    },
  });
  return new Response(body, { headers: { 'content-type': 'text/event-stream' } });
}

async function pass(pieces: string[], breaks = false, isLeft = false) {
  const kept: EndedResponse[] = [];
  let lost = 0;
  const response = await recorded(streamed(pieces, breaks), {
    fields: { id: 'resp_ours' },
    keep: async (ended) => void kept.push(ended),
    isLeft: () => isLeft,
    lost: async () => {
      lost += 1;
    },
  });
  return { response, kept, lost: () => lost };
}

const FAILED = (sequence_number: number, message: unknown): Fields => ({
  type: 'response.failed',
  sequence_number,
  response: { ...OURS, status: 'failed', error: { code: 'server_error', message } },
});

describe('a stream that breaks off', () => {
  it.each([
    ['with an error event', [CREATED, DELTA, ERROR], false, 8, 'it is gone'],
    ['without a word', [CREATED, DELTA], false, 8, expect.any(String)],
    ['with its connection', [CREATED, DELTA, DELTA.slice(0, 20)], true, 8, expect.any(String)],
    ['behind its beginning', [CREATED], true, 1, expect.any(String)],
  ])('%s ends with response.failed', async (_, pieces, breaks, number, message) => {
    const { response, kept, lost } = await pass(pieces, breaks);
    const events = eventsIn(await response.text());
    expect(events.at(-1)).toEqual(FAILED(number, message));
    expect(events.filter(({ type }) => type === 'response.output_text.delta')).toHaveLength(
      pieces.includes(DELTA) ? 1 : 0,
    );
    expect(events.map(({ type }) => type)).not.toContain('error');
    expect(kept).toMatchObject([{ status: 'failed' }]);
    expect(lost()).toBe(0);
  });

  it('keeps the output so far, with incomplete items', async () => {
    const part = { type: 'output_text', text: '', annotations: [] };
    const said = (type: string, fields: Fields) => eventText({ type: `response.${type}`, ...fields });
    const item = { id: 'msg_1', type: 'message', role: 'assistant', status: 'in_progress', content: [] };
    const of = { output_index: 1, content_index: 0, item_id: 'msg_1' };
    const reasoning = { id: 'rs_1', type: 'reasoning', summary: [], content: [] };
    const pieces = [
      CREATED,
      said('output_item.added', { output_index: 0, item: reasoning }) +
        said('output_item.done', { output_index: 0, item: { ...reasoning, status: 'completed' } }),
      said('output_item.added', { output_index: 1, item }) + said('content_part.added', { ...of, part }),
      said('output_text.delta', { ...of, delta: 'no "error" ' }),
      said('output_text.delta', { ...of, delta: 'yet' }) +
        said('output_text.delta', { delta: 'x' }).slice(0, 30),
    ];
    const { response, kept } = await pass(pieces, true);
    const output = [
      { ...reasoning, status: 'completed' },
      { ...item, status: 'incomplete', content: [{ ...part, text: 'no "error" yet' }] },
    ];
    expect(eventsIn(await response.text()).at(-1)).toMatchObject({ response: { status: 'failed', output } });
    expect(kept[0]!.output.map(({ json }) => JSON.parse(json))).toEqual(output);
  });

  it('stays an error where no response has begun', async () => {
    const { response, kept, lost } = await pass([ERROR]);
    expect(await response.text()).toBe(ERROR);
    expect([kept, lost()]).toEqual([[], 1]);
    const broken = await pass([], true);
    await expect(broken.response.text()).rejects.toThrow('broken');
    expect(broken.lost()).toBe(1);
  });
});

it('a caller that leaves in the middle leaves no response', async () => {
  const { response, kept, lost } = await pass([CREATED, DELTA]);
  const reader = response.body!.getReader();
  await reader.read();
  await reader.cancel();
  expect([kept, lost()]).toEqual([[], 1]);
});

it('an answer that breaks off since its caller has left leaves no response either', async () => {
  const { response, kept, lost } = await pass([CREATED, DELTA], true, true);
  expect(await response.text()).not.toContain('response.failed');
  expect([kept, lost()]).toEqual([[], 1]);
});

it('a stream that ends is kept as it ended', async () => {
  const done = { ...RESPONSE, status: 'completed' };
  const event = { type: 'response.completed', sequence_number: 8, response: done };
  const { response, kept, lost } = await pass([CREATED, DELTA + eventText(event)]);
  const text = await response.text();
  const created = eventText({ type: 'response.created', sequence_number: 0, response: OURS });
  expect(text).toContain(created + DELTA);
  const completed = { ...OURS, status: 'completed', completed_at: expect.any(Number) };
  expect(eventsIn(text).at(-1)).toEqual({ ...event, response: completed });
  expect(kept).toMatchObject([{ status: 'completed' }]);
  expect(lost()).toBe(0);
});

it('an answer in one piece says when it was completed, as the engine says it where it does', async () => {
  for (const [given, told] of [
    [{}, expect.any(Number)],
    [{ completed_at: 5 }, 5],
    [{ status: 'incomplete' }, undefined],
  ] as const) {
    const kept: EndedResponse[] = [];
    const keep = async (ended: EndedResponse) => void kept.push(ended);
    const answer = Response.json({ ...RESPONSE, status: 'completed', ...given });
    const response = await recorded(answer, {
      fields: {},
      keep,
      isLeft: () => false,
      lost: async () => {},
    });
    expect(Object(await response.json()).completed_at).toEqual(told);
    expect(Object(JSON.parse(kept[0]!.body)).completed_at).toEqual(told);
  }
});
