import { expect, test } from 'vitest';
import { settled } from '../../support/virtual-clock.ts';
import { STREAM_JOB, WorkerBench } from '../../support/worker-fakes.ts';

const IDS = [11, 12, 13, 14];
const payload = {
  method: 'POST',
  path: '/v1/completions',
  body: JSON.stringify({ model: 'tiny', prompt: IDS, stream: true, max_tokens: 5 }),
  continues: { prompt_tokens: 2 },
};

/** The worker moves no answers of its own, and may be asked for the rest of another's all the same. */
test('the rest of an answer is not taken from an engine that does not tell what it goes on from', async () => {
  const bench = await new WorkerBench().ready();
  await bench.push({ ...STREAM_JOB, payload });
  bench.engine.last
    .head(200, 'application/json')
    .write(JSON.stringify({ prompt: 'word' }))
    .end();
  await settled();
  expect(bench.engine.last.call.path).toBe('/v1/completions');
  expect(String(bench.engine.last.call.body)).toContain('"return_token_ids":true');
  const event = {
    id: 'a',
    object: 'text_completion',
    created: 1,
    model: 'tiny',
    choices: [{ text: 'Once' }],
  };
  bench.engine.last.head(200, 'text/event-stream').write(`data: ${JSON.stringify(event)}\n\n`);
  await settled();
  await bench.clock.advance(100);
  expect(bench.errors).toMatchObject([{ code: 'engine_error', retryable: false }]);
  expect(bench.relay.records.map(({ type }) => type)).not.toContain('bytes');
});

/** Their caller has each of them, also those that make no whole character. */
test('the rest of an answer of token ids goes on behind the last of them', async () => {
  const bench = await new WorkerBench().ready();
  const asked = { model: 'tiny', token_ids: IDS, stream: true, sampling_params: { max_tokens: 5 } };
  const path = '/inference/v1/generate';
  await bench.push({ ...STREAM_JOB, payload: { ...payload, path, body: JSON.stringify(asked) } });
  expect(bench.engine.last.call.path).toBe(path);
  expect(JSON.parse(String(bench.engine.last.call.body))).toMatchObject(asked);
  const event = (choice: object) => {
    const data = { request_id: 'a', usage: null, output_mode: 'tokens', choices: [{ index: 0, ...choice }] };
    return `data: ${JSON.stringify(data)}\n\n`;
  };
  bench.engine.last
    .head(200, 'text/event-stream')
    .write(event({ token_ids: [15] }))
    .write(event({ token_ids: [16], finish_reason: 'length' }))
    .write('data: [DONE]\n\n');
  await settled();
  await bench.clock.advance(100);
  const moves = bench.relay.records.find(({ type }) => type === 'moves');
  expect(moves).toMatchObject({
    moves: {
      plan: { path, max_tokens: 5, first_prompt: 2 },
      identity: { request_id: 'a', output_mode: 'tokens' },
      prompt_tokens: 4,
    },
  });
  const ids = bench.relay.records.flatMap((record) => (record.type === 'ids' ? record.ids : []));
  expect(ids).toEqual([...IDS, 15, 16]);
});

test('of an answer whose end goes along, nothing is told that only moving it would need', async () => {
  const bench = await new WorkerBench().ready();
  const asked = { model: 'tiny', token_ids: IDS, stream: true, sampling_params: { max_tokens: 1 } };
  const path = '/inference/v1/generate';
  await bench.push({ ...STREAM_JOB, payload: { ...payload, path, body: JSON.stringify(asked) } });
  const choice = { index: 0, token_ids: [15], finish_reason: 'length' };
  const data = { request_id: 'a', usage: null, output_mode: 'tokens', choices: [choice] };
  bench.engine.last
    .head(200, 'text/event-stream')
    .write(`data: ${JSON.stringify(data)}\n\n`)
    .write('data: [DONE]\n\n')
    .end();
  await settled();
  await bench.clock.advance(100);
  expect(bench.relay.records.map(({ type }) => type)).toEqual(['head', 'bytes', 'end']);
});

/** Cut off within it, the answer could not go on: a parser would begin anew. */
test('the ids of reasoning are told once it is over', async () => {
  const bench = await new WorkerBench().ready();
  const asked = {
    model: 'tiny',
    messages: [{ role: 'user', content: '.' }],
    stream: true,
    kv_transfer_params: { prompt_token_ids: IDS },
  };
  const request = {
    path: '/v1/chat/completions',
    body: JSON.stringify(asked),
    continues: { prompt_tokens: 4 },
  };
  await bench.push({ ...STREAM_JOB, payload: { ...payload, ...request } });
  const said = async (delta: object, token_ids: number[] | null, more = {}) => {
    const head = { id: 'a', object: 'chat.completion.chunk', created: 1, model: 'tiny' };
    const event = { ...head, choices: [{ index: 0, delta, finish_reason: null, token_ids }], ...more };
    bench.engine.last.write(`data: ${JSON.stringify(event)}\n\n`);
    await settled();
    await bench.clock.advance(100);
    return bench.relay.records.flatMap((record) => (record.type === 'ids' ? record.ids : []));
  };
  bench.engine.last.head(200, 'text/event-stream');
  const opening = { prompt_token_ids: IDS };
  expect(await said({ role: 'assistant', content: '' }, null, opening)).toEqual(IDS);
  expect(await said({ reasoning: 'Let me' }, [15])).toEqual(IDS);
  expect(await said({ reasoning: ' see.' }, [16])).toEqual(IDS);
  expect(await said({ content: '\n' }, [17])).toEqual(IDS);
  expect(await said({ content: 'Two' }, [18])).toEqual([...IDS, 15, 16, 17, 18]);
  const bytes = bench.relay.records.flatMap((record) => (record.type === 'bytes' ? record.data.length : []));
  const { offset } = bench.relay.records.findLast(({ type }) => type === 'ids') as { offset: number };
  expect(offset).toBe(bytes.reduce((sum, length) => sum + length, 0));
});

/** An engine that goes on from the beginning of a stop string does not see it. */
test('an answer that breaks off in order ends before the text in which a stop string may have begun', async () => {
  const bench = await new WorkerBench({ moves: true }).ready();
  const asked = { model: 'tiny', messages: [{ role: 'user', content: 'hi' }], stream: true, stop: 'on a' };
  await bench.push({ ...STREAM_JOB, payload: { path: '/v1/chat/completions', body: JSON.stringify(asked) } });
  const said = (delta: object, token_ids: number[] | null, more = {}) => {
    const head = { id: 'a', object: 'chat.completion.chunk', created: 1, model: 'tiny' };
    const event = { ...head, choices: [{ index: 0, delta, finish_reason: null, token_ids }], ...more };
    bench.engine.last.write(`data: ${JSON.stringify(event)}\n\n`);
  };
  bench.engine.last.head(200, 'text/event-stream');
  said({ role: 'assistant', content: '' }, null, { prompt_token_ids: IDS });
  said({ content: 'Once' }, [15]);
  said({ content: ' upon' }, [16]);
  bench.engine.last.end();
  await settled();
  await bench.clock.advance(100);
  expect(bench.errors).toMatchObject([{ code: 'engine_died', retryable: true }]);
  expect(bench.relay.bytesOf(7)).toContain('Once');
  expect(bench.relay.bytesOf(7)).not.toContain('upon');
  const ids = bench.relay.records.flatMap((record) => (record.type === 'ids' ? record.ids : []));
  expect(ids).toEqual([...IDS, 15]);
});
