import { expect, test } from 'vitest';
import { errorResponse, HttpError } from '../../../src/gateway/errors.ts';
import { streamEarly } from '../../../src/gateway/inference/early-response.ts';

/** A clock whose sleeps are over when the test says so. */
function ports() {
  const sleepers: (() => void)[] = [];
  const hungUp = Promise.withResolvers<void>();
  return {
    sleep: () => new Promise<void>((done) => sleepers.push(done)),
    hangUp: () => hungUp.resolve(),
    hungUp: hungUp.promise,
    /** Ends every sleep there is. */
    pass: () => {
      for (const done of sleepers.splice(0)) done();
    },
  };
}

test('an answer that comes soon is the answer itself', async () => {
  const answer = errorResponse(new HttpError(503, 'no worker', 'no_worker'));
  expect(await streamEarly(Promise.resolve(answer), {}, ports())).toBe(answer);
});

test.each([
  [
    'an error that the caller is answered',
    () => Promise.resolve(errorResponse(new HttpError(503, 'no slot', 'no_slot'))),
  ],
  ['an error that was thrown', () => Promise.reject(new HttpError(503, 'no slot', 'no_slot'))],
])('%s after a stream was begun is its only event', async (_case, end) => {
  const clock = ports();
  const late = Promise.withResolvers<Response>();
  const begun = streamEarly(late.promise, { 'x-job-id': 'j' }, clock);
  clock.pass();
  const response = await begun;
  expect([response.status, response.headers.get('x-job-id')]).toEqual([200, 'j']);
  const text = response.text();
  late.resolve(end());
  const event = /^: waiting\n\ndata: (.*)\n\ndata: \[DONE\]\n\n$/.exec(await text)?.[1] ?? '';
  expect(JSON.parse(event)).toMatchObject({ error: { message: 'no slot', code: 'no_slot' } });
});

test('a caller that leaves a begun stream is missed at the next comment', async () => {
  const clock = ports();
  const begun = streamEarly(new Promise(() => {}), {}, clock);
  clock.pass();
  await (await begun).body?.cancel();
  let missed = false;
  void clock.hungUp.then(() => {
    missed = true;
  });
  while (!missed) {
    clock.pass();
    await new Promise((done) => setImmediate(done));
  }
});
