import type { AttemptLoopPorts } from '../../asking/attempt-loop.ts';
import type { AskedFor } from '../../asking/objects.ts';
import { asciiJson } from '../../protocol/index.ts';
import { askForWorker, type RequestTarget } from '../../queue/request-call.ts';
import { isUnserved } from '../../queue/rpc.ts';
import { ANSWER_HEADERS, ASKED_FOR_HEADER, streamUrl } from '../../relay/calls.ts';

/** The objects that are asked for the rest of an answer. */
export interface ElsewhereEnv {
  QUEUE: Namespace;
  RELAY: Namespace;
}

/** The part of a DurableObjectNamespace that is used here. */
interface Namespace {
  getByName(name: string): unknown;
}

interface QueueStub extends RequestTarget {
  cancel(jobId: string, reason: 'caller_gone', viewer: null): Promise<unknown>;
  stayed(jobId: string, why: string): Promise<void>;
}

/** Asks queue and relays for another attempt, as the gateway asked for the first. */
export function elsewhere(env: ElsewhereEnv, asked: AskedFor): AttemptLoopPorts {
  const { queue_id, more } = asked;
  return {
    queue: {
      request: async (call) => {
        const answer = await askForWorker(queueOf(env, queue_id), call, more);
        if (!isUnserved(answer)) return answer;
        const message = 'no worker of its model is left';
        return { kind: 'refused', reason: 'no_worker', message, retry_after_seconds: 5 };
      },
      cancel: (id) => queueOf(env, queue_id).cancel(id, 'caller_gone', null),
    },
    openStream: (relay, streamId, { worker_id }) => {
      const headers = {
        [ANSWER_HEADERS]: asciiJson(more),
        [ASKED_FOR_HEADER]: asciiJson({ ...asked, worker_id }),
      };
      return (env.RELAY.getByName(relay) as RequestTarget).fetch(streamUrl(streamId), {
        redirect: 'manual',
        headers,
      });
    },
    waitUntil: (promise) => void promise.catch(() => {}),
    now: () => Date.now(),
    sleep: (ms) => new Promise<void>((done) => setTimeout(done, ms)),
  };
}

/** Tells the ledger why an answer that broke off was not moved; a queue that cannot be told goes without. */
export function stayed(env: ElsewhereEnv, { queue_id, call }: AskedFor, why: string): void {
  void queueOf(env, queue_id)
    .stayed(call.job_id, why)
    .catch(() => {});
}

function queueOf(env: ElsewhereEnv, queueId: string): QueueStub {
  return env.QUEUE.getByName(queueId) as QueueStub;
}
