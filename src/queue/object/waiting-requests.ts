import { freeBytes } from '../../durable/free-bytes.ts';
import { BROKEN_HEADER } from '../../relay/calls.ts';
import { BROKEN_FENCE_HEADER, readRequest, sayAnswer } from '../request-call.ts';
import { bytesOf, isUnserved, type RequestAnswer, type Unserved, type WaitingRequest } from '../rpc.ts';
import type { Relays } from './relays.ts';

interface RequestPorts {
  ask(job: WaitingRequest): Promise<RequestAnswer | Unserved>;
  /** Reports all news to the fleet object. */
  tellFleet(): Promise<void>;
  queueId(): string;
  /** Null: they have objects of their own. */
  relays: Relays | null;
}

/**
 * Answers the gateway's request for a worker: with the engine's answer itself if its relay is here, else with what the
 * queue decided. Null: the request asks for something else.
 */
export async function answerRequest(
  request: Request,
  { ask, tellFleet, relays, queueId }: RequestPorts,
): Promise<Response | null> {
  const asked = await readRequest(request);
  if (asked === null) return null;
  const said = await ask(asked.job);
  // A worker has it by now, or it is of no use any more.
  freeBytes(bytesOf(asked.job.payload));
  if (isUnserved(said)) await tellFleet();
  else if (said.kind === 'stream' && relays) {
    const { payload: _, ...call } = asked.job;
    const more = { ...asked.more, ...said.headers };
    const asking = { call, queue_id: queueId(), worker_id: said.worker_id, more };
    const response = await relays.named(said.relay).open(said.stream_id, more, asking);
    if (response.headers.has(BROKEN_HEADER))
      response.headers.set(BROKEN_FENCE_HEADER, String(said.fence_token));
    return response;
  }
  return sayAnswer(said);
}
