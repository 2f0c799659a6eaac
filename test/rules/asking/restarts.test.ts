import { expect, it } from 'vitest';
import type { AskedFor, Objects } from '../../../src/asking/objects.ts';
import { endTokens } from '../../../src/gateway/objects/sockets.ts';
import { choosePools } from '../../../src/gateway/objects/work.ts';
import { elsewhere, stayed } from '../../../src/moving/mover.ts';
import { LongResults } from '../../../src/queue/object/inbound.ts';
import { playedObjects } from '../../support/objects.ts';

const CALL = { job_id: 'j', job_type: 'engine_request', model: 'tiny', priority: 0 };
const ASKED = {
  call: { ...CALL, wait_for_worker_ms: 0, wait_for_slot_ms: 0 },
  queue_id: 'q',
  worker_id: 'w',
  more: {},
} satisfies AskedFor;

/** Objects whose first answer to every call is that they restart, each with what it was asked. */
function restarting() {
  const asked: string[] = [];
  const answered: string[] = [];
  const object = () =>
    new Proxy(
      {},
      {
        get: (_, name: string) => async () => {
          asked.push(name);
          if (asked.filter((one) => one === name).length === 1) {
            throw Object.assign(new Error('the object starts again'), { retryable: true });
          }
          answered.push(name);
          return { kind: 'stream' };
        },
      },
    );
  return { objects: playedObjects({ queue: object, fleet: object, files: object }), answered };
}

const asks: [string, string[], (objects: Objects) => unknown][] = [
  [
    'an answer that is moved, for another worker',
    ['request'],
    (objects) => elsewhere(objects, ASKED).queue.request({ ...ASKED.call, payload: '{}' }),
  ],
  [
    'an answer that is moved, when its caller is gone',
    ['cancel'],
    (objects) => elsewhere(objects, ASKED).queue.cancel('j'),
  ],
  ['an answer that is not moved, to tell why', ['stayed'], (objects) => stayed(objects, ASKED, 'why')],
  [
    'the gateway, for the pools of models',
    ['choosePools'],
    (objects) => choosePools({ objects }, 'q', ['a']),
  ],
  [
    'the gateway, when tokens end',
    ['endTokens', 'closeViewers'],
    (objects) =>
      endTokens({ objects, dialled: async () => ({ queues: [], fleets: [] }) }, [
        { name: 'a', sha256: 'a', isGone: true },
      ]),
  ],
  [
    'the queue, for room for a long result',
    ['put', 'keepForJob'],
    (objects) =>
      new LongResults({ files: () => objects.files('q'), log: () => {} }).put({
        type: 'job_result',
        job_id: 'j',
        fence_token: 1,
        result: { text: 'long' },
      }),
  ],
];

it.each(asks)('asks an object that restarts once more: %s', async (_, calls, ask) => {
  const { objects, answered } = restarting();
  await ask(objects);
  await expect.poll(() => [...answered].sort()).toEqual([...calls].sort());
});
