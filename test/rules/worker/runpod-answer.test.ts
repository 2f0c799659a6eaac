import { describe, expect, it } from 'vitest';
import { addressesFrom } from '../../../src/worker/runpod/http-platform.ts';
import { JobAnswer, takeJoined } from '../../../src/worker/runpod/job-answer.ts';
import type { PlatformPost } from '../../../src/worker/runpod/platform.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

const batch = (...tokens: string[]) => ({
  choices: [{ tokens }],
  usage: { input: 1, output: tokens.length },
});

describe('what one post holds', () => {
  it.each([
    ['texts of events', ['a', 'b', 'c'], 'abc', []],
    ['lists of chunks', [[1], [2, 3]], [1, 2, 3], []],
    [
      'batches of tokens, with the last usage',
      [batch('a'), batch('b', 'c')],
      { choices: [{ tokens: ['a', 'b', 'c'] }], usage: { input: 1, output: 2 } },
      [],
    ],
    ['nothing else', [{ id: 1 }, { id: 2 }], { id: 1 }, [{ id: 2 }]],
    ['only what is alike', ['a', { id: 2 }], 'a', [{ id: 2 }]],
  ])('joins %s', (_name, outputs, joined, rest) => {
    const waiting = [...outputs];
    expect(takeJoined(waiting)).toEqual(joined);
    expect(waiting).toEqual(rest);
  });

  it('has a bound, but is never empty', () => {
    const waiting = ['x'.repeat(300_000), 'y'];
    expect(takeJoined(waiting)).toHaveLength(300_000);
    expect(waiting).toEqual(['y']);
  });
});

describe('addresses', () => {
  const templates = {
    take: 'https://r/v2/e/job-take/$ID?gpu=A',
    done: 'https://r/v2/e/job-done/$RUNPOD_POD_ID/$ID',
    stream: 'https://r/v2/e/job-stream/$RUNPOD_POD_ID/$ID?gpu=A',
    ping: 'https://r/v2/e/ping/$RUNPOD_POD_ID',
  };
  const addresses = addressesFrom(templates, 'pod 1');

  it('name worker and job, with or without a query', () => {
    expect(addresses.take(1, false)).toBe('https://r/v2/e/job-take/pod%201?gpu=A&job_in_progress=0');
    expect(addresses.take(3, true)).toBe(
      'https://r/v2/e/job-take-batch/pod%201?gpu=A&batch_size=3&job_in_progress=1',
    );
    expect(addresses.stop!(true)).toBe('https://r/v2/e/job-stop/pod%201?gpu=A&job_in_progress=1');
    expect(addresses.done('j/1', true)).toBe('https://r/v2/e/job-done/pod%201/j%2F1?isStream=true');
    expect(addresses.stream('j')).toBe('https://r/v2/e/job-stream/pod%201/j?gpu=A&isStream=false');
  });

  it('that do not look like a take know of no batches and no stops', () => {
    const other = addressesFrom({ ...templates, take: 'https://r/jobs/$ID' }, 'w');
    expect(other.take(5, false)).toBe('https://r/jobs/w?job_in_progress=0');
    expect(other.stop).toBeNull();
  });
});

describe('an answer', () => {
  function answering(status: (post: PlatformPost, nth: number) => number = () => 200, tookMs = 100) {
    const clock = new VirtualClock();
    const posts: PlatformPost[] = [];
    const over: boolean[] = [];
    const log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
    const answer = new JobAnswer('j', {
      ...{ clock, log, random: () => 0, refreshes: false },
      platform: {
        post: async (post) => {
          posts.push(post);
          if (tookMs > 0) await new Promise<void>((resolve) => clock.setTimeout(resolve, tookMs));
          return { status: status(post, posts.length), body: undefined, problem: 'HTTP' };
        },
      },
      over: (hasTaken) => over.push(hasTaken),
    });
    const said = () => posts.map(({ to, body }) => [to, JSON.parse(body).output ?? JSON.parse(body).error]);
    return { clock, answer, posts, over, said };
  }

  it('posts one piece at a time, joins what comes meanwhile and repeats all at the end', async () => {
    const { clock, answer, said, over } = answering();
    for (const piece of ['a', 'b', 'c']) answer.yielded(piece);
    await clock.advance(100);
    answer.yielded('d');
    answer.settle({ output: ['a', 'b', 'c', 'd', 'e'] });
    await clock.advance(1000);
    expect(said()).toEqual([
      ['stream', 'a'],
      ['stream', 'bc'],
      ['stream', 'de'],
      ['done', ['a', 'bc', 'de']],
    ]);
    expect(over).toEqual([true]);
  });

  it.each([0, 1, 2, 3, 4, 5, 6, 7, 8])('ends %i steps after its last piece was taken', async (steps) => {
    const { clock, answer, said } = answering(() => 200, 0);
    answer.yielded('a');
    for (let step = 0; step < steps; step++) await Promise.resolve();
    answer.settle({ output: ['a'] });
    await clock.advance(0);
    expect(said()).toEqual([
      ['stream', 'a'],
      ['done', ['a']],
    ]);
  });

  it('of an earlier process is posted whole, without its pieces', async () => {
    const { clock, answer, said } = answering();
    answer.settleLate({ output: ['a', 'b'] });
    await clock.advance(1000);
    expect(said()).toEqual([['done', ['a', 'b']]]);
  });

  it('is not posted any more once it was dropped', async () => {
    const { clock, answer, said, over } = answering(() => 500);
    answer.yielded('a');
    await clock.advance(150);
    answer.drop();
    answer.settle({ output: ['a'] });
    await clock.advance(60_000);
    expect(said()).toEqual([['stream', 'a']]);
    expect(over).toEqual([]);
  });

  it('over 20 MB says so instead, and over 10 MB where it is refused', async () => {
    const large = answering();
    large.answer.settle({ output: ['x'.repeat(21_000_000)] });
    await large.clock.advance(1000);
    expect(large.said().at(-1)).toEqual(['done', expect.stringContaining('more than RunPod takes')]);
    const refused = answering((_post, nth) => (nth === 2 ? 400 : 200));
    refused.answer.settle({ output: ['x'.repeat(11_000_000)] });
    await refused.clock.advance(1000);
    expect(refused.said().at(-1)).toEqual(['done', expect.stringContaining('more than RunPod takes')]);
    expect(refused.over).toEqual([true]);
  });

  it('is tried again for as long as it takes', async () => {
    const { clock, answer, over, posts } = answering((_post, nth) => (nth < 20 ? 503 : 200));
    answer.settle({ error: 'no' });
    await clock.advance(3_600_000);
    expect(posts).toHaveLength(20);
    expect(over).toEqual([true]);
  });
});
