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
