import type { Queue } from '../../src/queue/queue.ts';
import { isUnserved, type QueueCalls, type RequestAnswer, type Unserved } from '../../src/queue/rpc.ts';

/** Puts one question to the queue as it is then, and brings the answer back. */
export type Rpc = <T>(ask: (queue: Queue, answer: (value: T) => void) => void) => Promise<T>;

/** What the gateway may ask. @param tellFleet tells the fleet object all that it has not heard yet */
export function queueCalls(rpc: Rpc, tellFleet: () => Promise<unknown>): QueueCalls {
  const unasked = () => Promise.reject(new Error('not part of this run'));
  return {
    submit: (jobs) =>
      rpc((queue, answer) => {
        const ids = jobs.map((job) => job.id ?? 'x');
        answer(queue.submit(jobs, ids));
      }),
    request: async (job) => {
      const answer = await rpc<RequestAnswer | Unserved>((queue, answer) => queue.request(job, answer));
      if (isUnserved(answer)) await tellFleet();
      return answer;
    },
    get: (id) => rpc((queue, answer) => answer(queue.get(id))),
    wait: (id, ms) => rpc((queue, answer) => queue.wait(id, ms, answer)),
    cancel: (id, reason) => rpc((queue, answer) => answer(queue.cancel(id, reason))),
    status: () => rpc((queue, answer) => answer(queue.status())),
    ledger: (id) => rpc((queue, answer) => answer(queue.ledger(id))),
    follow: (id, fence, ms) =>
      rpc((queue, answer) =>
        queue.follow(id, fence, ms, (job) => answer(job && { job, ...queue.outputOf(job) })),
      ),
    list: unasked,
    settlements: (wanted) => rpc((queue, answer) => queue.settlements(wanted, answer)),
    listen: unasked,
    nextSettled: unasked,
    leaveListener: unasked,
    waitingLines: unasked,
    sessions: unasked,
    hasSession: unasked,
    closeSockets: unasked,
    retry: unasked,
    purge: unasked,
    takeOutput: unasked,
  };
}
