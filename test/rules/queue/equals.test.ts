import { describe, expect, it } from 'vitest';
import type { WaitingRequest } from '../../../src/queue/rpc.ts';
import { type FakeConnection, QueueHarness } from '../../support/queue-harness.ts';

const OLD = 'llama@a@17';
const NEW = 'llama@b@17';

const ids = (worker: FakeConnection) => worker.frames('job').map(({ job_id }) => job_id);

const serving = (model_identity: string | undefined, version?: string) => ({
  capacity: 4,
  instance: { ...(model_identity && { model_identity }), ...(version && { version }) },
});

/** The rest of an answer that a worker began. */
function moved(from: string, model_identity?: string): Partial<WaitingRequest> {
  const facts = { worker_id: from, tokens: 1, kept: 2, why: 'it broke', moves: 1, failures: 1 };
  const times = { given_ms_ago: 9, first_token_ms_ago: 5, newest_first_token_ms_ago: 5 };
  return { job_id: 'asked', moved: { ...facts, ...times, ...(model_identity && { model_identity }) } };
}

describe('the rest of a stream', () => {
  it('goes to a worker that serves what its beginning came from, however busy, and in whatever pool', () => {
    const queue = new QueueHarness();
    const other = queue.worker('other', serving(NEW));
    const equal = queue.worker('equal', { ...serving(OLD), config_id: 'another' });
    queue.request({ job_id: 'before', model: 'another' });
    queue.request(moved('gone', OLD));
    expect([ids(other), ids(equal)]).toEqual([[], ['before', 'asked']]);
  });

  it('waits for an equal worker that is busy, not for others', () => {
    const queue = new QueueHarness();
    const equal = queue.worker('equal', { ...serving(OLD), capacity: 1 });
    queue.request({ job_id: 'before' });
    const other = queue.worker('other', serving(NEW));
    const answers = queue.request(moved('gone', OLD));
    expect([ids(other), ids(equal), answers]).toEqual([[], ['before'], []]);
    // It holds up nobody behind it.
    queue.say(other, { type: 'pause' });
    queue.request({ job_id: 'behind' });
    queue.say(other, { type: 'resume' });
    expect(ids(other)).toEqual(['behind']);
    const { job_id, fence_token } = equal.lastJob();
    queue.say(equal, { type: 'job_result', job_id, fence_token, result: {} });
    expect(ids(equal)).toEqual(['before', 'asked']);
  });

  it('is refused at once where no worker is equal, though there are slots', () => {
    const queue = new QueueHarness();
    const other = queue.worker('other', serving(NEW));
    const answers = queue.request({ ...moved('gone', OLD), wait_for_worker_ms: 0 });
    expect(ids(other)).toEqual([]);
    expect(answers).toMatchObject([
      { kind: 'refused', reason: 'no_worker', message: expect.stringContaining('the same model') },
    ]);
  });

  it('goes on as before among workers of one pool and version that do not say what they serve', () => {
    const queue = new QueueHarness();
    queue.worker('from', serving(undefined, 'v1'));
    const newer = queue.worker('newer', serving(undefined, 'v2'));
    const same = queue.worker('same', serving(undefined, 'v1'));
    queue.request(moved('from'));
    expect([ids(newer), ids(same)]).toEqual([[], ['asked']]);
  });

  it('does not go from a worker that does not say what it serves to one of another pool that does', () => {
    const queue = new QueueHarness();
    queue.worker('from');
    const other = queue.worker('other', { ...serving(NEW), config_id: 'another' });
    queue.request(moved('from'));
    expect(ids(other)).toEqual([]);
  });
});

describe('a stored job', () => {
  const PARTIAL = { prompt_tokens: 2, ids: [1, 2, 11], role: 'assistant', text: 'Once', logprobs: null };

  /** It is released by a worker with a part of its answer. @returns what the next worker is given */
  function released(next: string): unknown {
    const queue = new QueueHarness();
    const leaving = queue.worker('leaving', serving(OLD));
    queue.job();
    const staying = queue.worker('staying', serving(next));
    const { job_id, fence_token } = leaving.lastJob();
    queue.say(leaving, { type: 'drain' });
    const partial = { ...PARTIAL, model_identity: OLD };
    queue.say(leaving, { type: 'job_release', job_id, fence_token, reason: 'draining', partial });
    return staying.lastJob();
  }

  it('goes on at an equal worker, and is made anew at any other', () => {
    expect(released(OLD)).toMatchObject({ partial: PARTIAL });
    expect(released(NEW)).not.toHaveProperty('partial');
  });
});
