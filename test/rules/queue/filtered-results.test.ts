import { expect, it } from 'vitest';
import { hooks } from '../../../src/features/hooks/hooks.ts';
import { FilteredResults } from '../../../src/queue/object/filtered-results.ts';

/** Results whose hook is away, with a clock that the test hands over: each pause is over at once. */

const RESULT = {
  type: 'job_result' as const,
  job_id: 'j',
  fence_token: 7,
  result: { response: { status: 200, body: { choices: [{ message: { content: 'Hi' } }] } } },
};
const FACTS = {
  ...{ job_type: 'engine_request', tenant: null, token_name: null, model: 'm', result_file: null },
  extras: {},
};

function results(answer: (nth: number) => Response, more: Record<string, string> = {}) {
  let now = 0;
  const askedAt: number[] = [];
  const notes: string[] = [];
  const filter = hooks({
    settings: {
      HOOK_AFTER: 'https://hooks.test/',
      HOOK_SECRET: `whsec_${Buffer.alloc(32, 3).toString('base64')}`,
      ...more,
    },
    post: () => async () => answer(askedAt.push(now)),
    objects: null as never,
    log: () => {},
  })!;
  const filtered = new FilteredResults({
    filters: [filter],
    queueId: 'q',
    files: () => null as never,
    payload: () => null,
    note: (_, text) => void notes.push(text),
    now: () => now,
    after: (ms, run) => {
      now += ms;
      setImmediate(run);
      return () => {};
    },
    log: () => {},
  });
  return { filtered, askedAt, notes };
}

const away = () => new Response(null, { status: 503 });
const REASON = 'the hook after failed: it answered 503; the answer';

it('a result whose hook stays away is shown to it for two minutes, and then fails its job', async () => {
  const { filtered, askedAt, notes } = results(away);
  const { settled, waits } = filtered.filter(RESULT, FACTS, 'w', () => true);
  await waits;
  expect(await settled).toMatchObject({
    ...{ type: 'job_error', code: 'hook_failed', http_status: 503, retryable: false },
    ...{ job_id: 'j', fence_token: 7 },
  });
  expect(askedAt.map((at) => at / 1000)).toEqual([0, 1, 3, 7, 15, 30, 45, 60, 75, 90, 105, 120]);
  expect(notes).toEqual([
    `${REASON} was kept back (QUEUE_HOOK_ON_FAILURE)`,
    'the result waits, for at most 120 s',
    'the result was kept back 12 times, and its job fails',
  ]);
});

it('a result passes at once where an open hook is away, and the ledger says so', async () => {
  const { filtered, askedAt, notes } = results(away, { HOOK_ON_FAILURE: 'open' });
  expect(await filtered.filter(RESULT, FACTS, 'w', () => true).settled).toEqual(RESULT);
  expect(askedAt).toEqual([0]);
  expect(notes).toEqual([`${REASON} went on without it (QUEUE_HOOK_ON_FAILURE)`]);
});

it('a result that its worker sends again waits once, and one of another worker has nothing of it', async () => {
  const { filtered, askedAt } = results((nth) =>
    nth < 3 ? away() : Response.json({ action: 'replace', text: `seen ${nth}` }),
  );
  const [first, again, other] = ['w', 'w', 'x'].map((worker) =>
    filtered.filter(RESULT, FACTS, worker, () => true),
  );
  expect(again).toBe(first);
  expect(other).not.toBe(first);
  expect(JSON.stringify(await again!.settled)).toContain('seen');
  await other!.settled;
  expect(askedAt).toHaveLength(4);
});

it('a result that nobody wants any more is not shown to its hook again', async () => {
  const { filtered, askedAt } = results(away);
  const { settled } = filtered.filter(RESULT, FACTS, 'w', () => askedAt.length < 2);
  expect(await settled).toMatchObject({ type: 'job_error', code: 'hook_failed' });
  expect(askedAt).toHaveLength(2);
});
