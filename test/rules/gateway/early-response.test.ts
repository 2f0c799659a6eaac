import { describe, expect, it, test } from 'vitest';
import { errorResponse, HttpError } from '../../../src/gateway/errors.ts';
import {
  BEGIN_AFTER_MS,
  beginAfterMs,
  type EarlyParts,
  respondEarly,
} from '../../../src/gateway/inference/answer.ts';
import { type Dialect, dialectOf } from '../../../src/protocol/index.ts';

/** A clock whose timers are over when the test says so. */
function clock() {
  const timers = new Map<number, () => void>();
  let next = 0;
  return {
    setTimeout: (run: () => void) => {
      next += 1;
      timers.set(next, run);
      return next;
    },
    clearTimeout: (timer: number) => void timers.delete(timer),
    /** Ends every timer there is. */
    pass: () => {
      const due = [...timers.values()];
      timers.clear();
      for (const run of due) run();
    },
    get size() {
      return timers.size;
    },
  };
}

function parts(timers: ReturnType<typeof clock>, more: Partial<EarlyParts> = {}): EarlyParts {
  const errorOf = { dialect: dialectOf('/v1/chat/completions'), requestId: 'req-1' };
  return { kind: 'events', headers: { 'x-job-id': 'j' }, errorOf, timers, hangUp: () => {}, ...more };
}

const noSlot = new HttpError(503, 'no slot', 'no_slot');

/** A response that was begun, and what is to become of it. */
async function begun(more: Partial<EarlyParts> = {}) {
  const timers = clock();
  const late = Promise.withResolvers<Response>();
  const response = respondEarly(late.promise, parts(timers, more));
  timers.pass();
  return { timers, late, response: await response };
}

test('an answer that comes soon is the answer itself, and leaves no timer', async () => {
  const timers = clock();
  const answer = errorResponse(noSlot);
  expect(await respondEarly(Promise.resolve(answer), parts(timers))).toBe(answer);
  await expect(respondEarly(Promise.reject(noSlot), parts(timers))).rejects.toBe(noSlot);
  expect(timers.size).toBe(0);
});

describe('a stream that was begun', () => {
  it.each([
    ['an error that the caller is answered', () => Promise.resolve(errorResponse(noSlot))],
    ['an error that was thrown', () => Promise.reject(noSlot)],
  ])('has %s for its only event', async (_case, end) => {
    const { late, response } = await begun();
    expect([response.status, response.headers.get('x-job-id')]).toEqual([200, 'j']);
    late.resolve(end());
    const event =
      /^: waiting\n\n: \n\ndata: (.*)\n\ndata: \[DONE\]\n\n$/.exec(await response.text())?.[1] ?? '';
    expect(JSON.parse(event).error).toMatchObject({
      message: 'no slot',
      type: 'service_unavailable_error',
      code: 'no_slot',
      status: 503,
    });
  });

  it.each<[Dialect, RegExp]>([
    ['anthropic', /^: waiting\n\n: \n\nevent: error\ndata: \{"type":"error",.*"request_id":"req-1"\}\n\n$/],
    ['responses', /^: waiting\n\n: \n\nevent: error\ndata: \{"type":"error","sequence_number":0,.*\}\n\n$/],
  ])('ends with an error as the API %s has it', async (dialect, expected) => {
    const { late, response } = await begun({ errorOf: { dialect, requestId: 'req-1' } });
    late.resolve(errorResponse(noSlot, { dialect, requestId: 'req-1' }));
    expect(await response.text()).toMatch(expected);
  });

  it('passes on what an engine refused late, of any form, in one event', async () => {
    const { late, response } = await begun();
    late.resolve(new Response('not\n\nnow', { status: 429 }));
    const text = (await response.text()).replace(': waiting\n\n: \n\n', '');
    expect(JSON.parse(/^data: (.*)/.exec(text)?.[1] ?? '').error).toMatchObject({
      message: 'not\n\nnow',
      status: 429,
    });
    expect(text.split('\n\n')).toHaveLength(3);
  });

  it('goes on with the answer, and says until then how far its request is', async () => {
    const news = ['place 2 of 2', 'place 1 of 2'];
    const { late, timers, response } = await begun({ progress: async () => news.shift() ?? 'waiting' });
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    expect((await reader.read()).value).toBe(': place 2 of 2\n\n');
    await new Promise((done) => setImmediate(done));
    timers.pass();
    expect((await reader.read()).value).toBe(': place 1 of 2\n\n');
    late.resolve(new Response('data: 1\n\n'));
    expect((await reader.read()).value).toBe(': \n\ndata: 1\n\n');
    expect((await reader.read()).done).toBe(true);
  });
});

describe('JSON that was begun', () => {
  it('comes after blanks', async () => {
    const { late, response } = await begun({ kind: 'json' });
    expect(response.headers.get('content-type')).toBe('application/json');
    late.resolve(Response.json({ a: 1 }));
    const text = await response.text();
    expect([text[0], JSON.parse(text)]).toEqual(['\n', { a: 1 }]);
  });

  it('that turns out to be an error says so, and breaks off, so that nobody takes it for an answer', async () => {
    const { late, timers, response } = await begun({ kind: 'json' });
    late.resolve(errorResponse(noSlot));
    let text = '';
    const read = async () => {
      for await (const piece of response.body!) {
        text += new TextDecoder().decode(piece);
        setImmediate(timers.pass);
      }
    };
    await expect(read()).rejects.toThrow(/late.*503/);
    expect(JSON.parse(text)).toMatchObject({ error: { code: 'no_slot' } });
  });
});

test.each(['events', 'json'] as const)(
  'a caller that leaves begun %s is missed at the next write',
  async (kind) => {
    const gone = Promise.withResolvers<void>();
    const { timers, response } = await begun({ kind, hangUp: gone.resolve });
    await response.body?.cancel();
    let missed = false;
    void gone.promise.then(() => {
      missed = true;
    });
    while (!missed) {
      timers.pass();
      await new Promise((done) => setImmediate(done));
    }
  },
);

test('a response waits for its own status where the caller waits a short time only', () => {
  expect(beginAfterMs([undefined, undefined])).toBe(BEGIN_AFTER_MS);
  expect(beginAfterMs([30_000, undefined])).toBe(BEGIN_AFTER_MS);
  expect(beginAfterMs([undefined, 3000])).toBeGreaterThan(3000);
  expect(beginAfterMs([30_000, 5000])).toBeGreaterThan(5000);
  expect(beginAfterMs([0])).toBe(BEGIN_AFTER_MS);
});
