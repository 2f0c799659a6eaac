import { type AttemptLoopPorts, openedResponse } from '../../asking/attempt-loop.ts';
import type { AskedFor, Objects } from '../../asking/objects.ts';
import { isUnserved } from '../../queue/rpc.ts';

/** Asks queue and relays for another attempt, as the gateway asked for the first. */
export function elsewhere(objects: Objects, asked: AskedFor): AttemptLoopPorts<Response> {
  const { queue_id, more } = asked;
  return {
    queue: {
      request: async (call) => {
        const answer = await objects.queue(queue_id).request(call);
        if (!isUnserved(answer)) return answer;
        const message = 'no worker of its model is left';
        return { kind: 'refused', reason: 'no_worker', message, retry_after_seconds: 5 };
      },
      cancel: (id) => objects.queue(queue_id).cancel(id, 'caller_gone', null),
    },
    openStream: async (streamId, { worker_id }) => {
      const relay = objects.relay(queue_id, worker_id);
      return openedResponse(await relay.open(streamId, more, { ...asked, worker_id }));
    },
    waitUntil: (promise) => void promise.catch(() => {}),
    now: () => Date.now(),
    sleep: (ms) => new Promise<void>((done) => setTimeout(done, ms)),
  };
}

/** Tells the ledger why an answer that broke off was not moved; a queue that cannot be told goes without. */
export function stayed(objects: Objects, { queue_id, call }: AskedFor, why: string): void {
  void objects
    .queue(queue_id)
    .stayed(call.job_id, why)
    .catch(() => {});
}
