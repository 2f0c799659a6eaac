import { expect, it } from 'vitest';
import { HookCaller, HookFailure } from '../../../src/features/hooks/caller.ts';
import { HookCounts } from '../../../src/features/hooks/counts.ts';

const MIB = 1024 * 1024;

it('an answer without an end is read no further than an answer may be long', async () => {
  const piece = new TextEncoder().encode(' '.repeat(8 * MIB));
  let read = 0;
  let isCancelled = false;
  const endless = new ReadableStream<Uint8Array>({
    pull: (controller) => {
      read += piece.length;
      if (read > 128 * MIB) controller.error(new Error('it was read on and on'));
      else controller.enqueue(piece);
    },
    cancel: () => {
      isCancelled = true;
    },
  });
  const caller = new HookCaller({
    post: () => async () => new Response(endless),
    key: new Uint8Array(32),
    deadlineMs: 60_000,
    counts: new HookCounts(),
    now: Date.now,
  });
  const asking = caller.ask('before', { url: 'https://hooks.test/', reach: 'public' }, '{}');
  await expect(asking).rejects.toThrow(new HookFailure('its answer is too long'));
  expect(isCancelled).toBe(true);
});
