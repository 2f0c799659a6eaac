import { type AttemptLoopPorts, openedResponse, REAL_TIME, withTimeLeft } from '../../asking/attempt-loop.ts';
import type { AskedFor, Objects } from '../../asking/objects.ts';
import { onceMore } from '../../asking/once-more.ts';
import { isUnserved } from '../../queue/rpc.ts';

/**
 * Makes the ports that request another attempt from queue and relays, as the gateway requested the first.
 * @param time the clock and timers of these ports
 */
export function elsewhere(objects: Objects, asked: AskedFor, time = REAL_TIME): AttemptLoopPorts<Response> {
  const { queue_id, more } = asked;
  return {
    queue: {
      request: async (call) => {
        const startedAt = time.now();
        const answer = await onceMore(() =>
          objects.queue(queue_id).request(withTimeLeft(call, time.now() - startedAt)),
        );
        if (!isUnserved(answer)) return answer;
        const message = 'no worker of its model is left';
        return { kind: 'refused', reason: 'no_worker', message, retry_after_seconds: 5 };
      },
      cancel: (id) => onceMore(() => objects.queue(queue_id).cancel(id, 'caller_gone', null)),
    },
    openStream: async (streamId, { worker_id }) => {
      const relay = objects.relay(queue_id, worker_id);
      return openedResponse(await relay.open(streamId, more, { ...asked, worker_id }));
    },
    waitUntil: (promise) => void promise.catch(() => {}),
    ...time,
  };
}

/**
 * Reports to the ledger why an answer that broke off was not moved; if the queue cannot be reached, the ledger goes
 * without.
 */
export function stayed(objects: Objects, { queue_id, call }: AskedFor, why: string): void {
  void onceMore(() => objects.queue(queue_id).stayed(call.job_id, why)).catch(() => {});
}
