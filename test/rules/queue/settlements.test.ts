import { describe, expect, it } from 'vitest';
import type { SettlementsAnswer, SettlementsWanted } from '../../../src/queue/rpc.ts';
import { QueueHarness } from '../../support/queue-harness.ts';

function ask(queue: QueueHarness, wanted: Partial<SettlementsWanted> = {}): SettlementsAnswer[] {
  const answers: SettlementsAnswer[] = [];
  const question = { after: 0, config_id: null, wait_ms: 0, viewer: null, ...wanted };
  queue.queue.wait('settlements', question, (answer) => answers.push(answer));
  return answers;
}

function settle(queue: QueueHarness, job: Parameters<QueueHarness['job']>[0] = {}): string {
  const id = queue.job(job);
  queue.queue.do('cancel', id, 'cancelled', null);
  return id;
}

const idsOf = (answers: SettlementsAnswer[]) =>
  answers.flatMap((answer) => (answer.ok ? answer.settlements.map(({ id }) => id) : ['rejected']));

describe('settlements', () => {
  it('come in their order, numbered, each once', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    const first = settle(queue);
    const second = queue.job();
    queue.say(worker, { ...worker.lastJob(), type: 'job_error', error: 'broke', retryable: false });
    expect(ask(queue)).toMatchObject([
      {
        settlements: [
          { n: 1, id: first, state: 'cancelled', error: { code: 'cancelled' } },
          { n: 2, id: second, state: 'failed', attempts: 1, worker_id: 'w', error: { message: 'broke' } },
        ],
        up_to: 2,
        missed: null,
      },
    ]);
    expect(idsOf(ask(queue, { after: 1 }))).toEqual([second]);
    expect(ask(queue, { after: 2 })).toEqual([{ ok: true, settlements: [], up_to: 2, missed: null }]);
    expect(ask(queue, { after: null })).toEqual([{ ok: true, settlements: [], up_to: 2, missed: null }]);
  });

  it('are waited for, and answered with nothing when the time is over', () => {
    const queue = new QueueHarness();
    settle(queue);
    const waiting = ask(queue, { after: 1, wait_ms: 60_000 });
    const news = ask(queue, { after: null, wait_ms: 60_000 });
    const short = ask(queue, { after: 1, wait_ms: 5000 });
    queue.advance(6);
    expect([waiting.length, news.length]).toEqual([0, 0]);
    expect(short).toEqual([{ ok: true, settlements: [], up_to: 1, missed: null }]);
    const id = settle(queue);
    expect([idsOf(waiting), idsOf(news)]).toEqual([[id], [id]]);
  });

  it('go on with their numbers after a restart, also when retention has left none', () => {
    const queue = new QueueHarness({ retention_seconds: 60 });
    settle(queue);
    settle(queue);
    queue.restart();
    settle(queue);
    expect(ask(queue, { after: 2 })).toMatchObject([{ settlements: [{ n: 3 }] }]);
    queue.advance(120);
    queue.restart();
    expect(ask(queue, { after: 1 })).toEqual([{ ok: true, settlements: [], up_to: 3, missed: 'forgotten' }]);
    expect(ask(queue, { after: 3 })).toMatchObject([{ missed: null }]);
    settle(queue);
    expect(ask(queue, { after: 1 })).toMatchObject([{ settlements: [{ n: 4 }], missed: 'forgotten' }]);
  });

  it('say so to a reader whose number is of another state', () => {
    const queue = new QueueHarness();
    settle(queue);
    expect(ask(queue, { after: 500, wait_ms: 1000 })).toEqual([
      { ok: true, settlements: [], up_to: 1, missed: 'unknown' },
    ]);
  });

  it('are those of a tenant and of a pool alone, and what is passed over moves the reader on', () => {
    const queue = new QueueHarness();
    const mine = settle(queue, { tenant: 'me' });
    const other = settle(queue, { tenant: 'you', config_id: 'other' });
    expect(idsOf(ask(queue, { viewer: 'me' }))).toEqual([mine]);
    expect(idsOf(ask(queue, { config_id: 'other' }))).toEqual([other]);
    expect(ask(queue, { after: 1, viewer: 'me', wait_ms: 1000 })).toEqual([
      { ok: true, settlements: [], up_to: 2, missed: null },
    ]);
  });

  it('are read in bites, however many there are', () => {
    const queue = new QueueHarness();
    for (let n = 0; n < 250; n += 1) settle(queue);
    let after = 0;
    const sizes: number[] = [];
    while (after < 250) {
      const [answer] = ask(queue, { after });
      if (!answer?.ok) break;
      sizes.push(answer.settlements.length);
      after = answer.up_to;
    }
    expect(sizes).toEqual([100, 100, 50]);
  });

  it('are read by so many at a time, and by fewer of one tenant', () => {
    const queue = new QueueHarness();
    const mine = Array.from(
      { length: 21 },
      () => ask(queue, { after: null, viewer: 'me', wait_ms: 1000 })[0],
    );
    expect(mine.filter((answer) => answer?.ok === false)).toEqual([{ ok: false, most: 20 }]);
    const all = Array.from({ length: 181 }, () => ask(queue, { after: null, wait_ms: 1000 })[0]);
    expect(all.filter((answer) => answer?.ok === false)).toEqual([{ ok: false, most: 200 }]);
    // The question that decides about the status of a stream waits for nothing.
    expect(ask(queue, { after: null, wait_ms: 0 })).toEqual([{ ok: false, most: 200 }]);
    queue.advance(2);
    expect(ask(queue, { after: null, viewer: 'me', wait_ms: 1000 })).toEqual([]);
  });
});
