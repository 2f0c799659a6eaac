import { expect, it } from 'vitest';
import { type FilteredRequest, FilterRefusal, filterRequest } from '../../../src/asking/filters.ts';
import { keptRequests } from '../../../src/features/kept-requests/filter.ts';
import type { KeptRecord } from '../../../src/features/kept-requests/types.ts';

const bytesOf = (text: string) => new TextEncoder().encode(text);
const BODY = bytesOf(JSON.stringify({ model: 'tiny', messages: [{ role: 'user', content: 'Hello' }] }));

/** The filter with an object of records that keeps what it is given. */
function keeping() {
  const records: KeptRecord[] = [];
  const objects = {
    queue: () => ({ ledger: async () => null }),
    keptRequests: () => ({ add: async (record: KeptRecord) => void records.push(record) }),
  };
  const filter = keptRequests({
    settings: { KEEP_REQUESTS: 'all' },
    objects: objects as never,
    log: () => {},
  })!;
  const lines = () => records.map(({ line }) => JSON.parse(line) as Record<string, unknown>);
  return { filter, lines };
}

function asked(more: Partial<FilteredRequest> = {}): FilteredRequest {
  return {
    ...{ road: 'live', queueId: 'q', jobId: 'req_1', requestId: 'req_1', responseId: null, tenant: null },
    ...{
      tokenName: null,
      keep: null,
      path: '/v1/chat/completions',
      model: 'tiny',
      contentType: null,
      note: () => {},
    },
    ...more,
  };
}

it('what a caller read who hung up is kept, with that it broke off', async () => {
  const { filter, lines } = keeping();
  const request = asked();
  await filter.request!(request, BODY);
  let isCancelled = false;
  const event = (content: string) =>
    bytesOf(`data: ${JSON.stringify({ choices: [{ index: 0, delta: { content } }] })}\n\n`);
  const source = new ReadableStream<Uint8Array>(
    {
      start: (controller) => {
        controller.enqueue(event('one '));
        controller.enqueue(event('two'));
      },
      cancel: () => {
        isCancelled = true;
      },
    },
    { highWaterMark: 0 },
  );
  const headers = { 'content-type': 'text/event-stream' };
  const answer = await filter.answer!(new Response(source, { headers }), request);
  const reader = answer.body!.getReader();
  await reader.read();
  expect(lines()).toEqual([]);
  await reader.cancel();
  expect(isCancelled).toBe(true);
  expect(lines()).toMatchObject([{ 'worker_vllm.outcome': 'broken_off', 'error.type': 'broken_off' }]);
  expect(JSON.stringify(lines())).toContain('one ');
});

it('a caller who hangs up while the next piece is awaited has one record', async () => {
  const { filter, lines } = keeping();
  const request = asked();
  await filter.request!(request, BODY);
  const source = new ReadableStream<Uint8Array>({
    start: (controller) => controller.enqueue(bytesOf('data: {}\n\n')),
  });
  const headers = { 'content-type': 'text/event-stream' };
  const answer = await filter.answer!(new Response(source, { headers }), request);
  const reader = answer.body!.getReader();
  await reader.read();
  // The next read is under way then, and its end is not that of the answer.
  await new Promise(setImmediate);
  await reader.cancel();
  await new Promise(setImmediate);
  expect(lines().map((line) => line['worker_vllm.outcome'])).toEqual(['broken_off']);
});

it('what a hook refused is kept, and what a hook that is out of order turned away is not', async () => {
  const refusing = async (status: number) => {
    const { filter, lines } = keeping();
    const refusal = new FilterRefusal(status, 'policy', 'Not here.');
    const hook = { request: () => Promise.reject(refusal) };
    await expect(filterRequest([hook, filter], asked(), BODY)).rejects.toBe(refusal);
    return lines();
  };
  expect(await refusing(400)).toMatchObject([{ 'worker_vllm.outcome': 'refused', 'error.type': 'policy' }]);
  expect(await refusing(503)).toEqual([]);
});

it.each([
  ['{"message": "No", "code": "policy"}', 'policy'],
  ['{"message": "No", "code": 400}', '400'],
  ['{"message": "No", "type": "overloaded_error"}', 'overloaded_error'],
  ['{"message": "No", "code": null}', 'error'],
  ['"No"', 'error'],
])('a stream that ends with the error %s is kept with its code', async (error, type) => {
  const { filter, lines } = keeping();
  const request = asked();
  await filter.request!(request, BODY);
  const headers = { 'content-type': 'text/event-stream' };
  const events = `data: {"choices": [{"delta": {"content": "one"}}]}\n\ndata: {"error": ${error}}\n\n`;
  await (await filter.answer!(new Response(events, { headers }), request)).text();
  expect(lines()).toMatchObject([{ 'worker_vllm.outcome': 'failed', 'error.type': type }]);
});
