import { percentDecoded } from '../../protocol/index.ts';
import type { Viewer } from '../../queue/rpc.ts';
import { workerAlone } from '../../queue/rpc.ts';
import type { Env } from '../env.ts';
import { HttpError } from '../errors.ts';
import { callFleet, callQueue } from '../objects/calls.ts';

/**
 * Routes requests about responses that an engine keeps (`/v1/responses`). Such a request goes to the worker whose
 * engine has the response; the fleet object remembers which worker that is for the newest responses. Ids stay as
 * engines make them.
 */

const MADE = '/v1/responses';
const ABOUT_ONE = /^\/v1\/responses\/([^/?]+)(?:\/cancel)?(?:\?|$)/;

/** The gateway looks for a response's id in this many first bytes of its answer, where engines put it. */
const LOOKED_AT_BYTES = 16 * 1024;

/** Returns what takes the model's place in a request about a kept response, or null for a request about none. */
export async function ownerOf(
  env: Env,
  queueId: string,
  path: string,
  previousId: string | null,
  viewer: Viewer,
): Promise<string | null> {
  const asked = askedAbout(path);
  const id = asked ?? previousId;
  if (id === null) return null;
  const owner = await callFleet(env, queueId, (fleet) => fleet.ownerOfResponse(id, viewer));
  if (owner !== null && owner !== 'foreign') return workerAlone(owner.worker_id);
  // The engine refuses to go on from an unknown response; but it cannot know that a response is another tenant's.
  if (asked === null && owner === null) return null;
  const message = `No response "${id.slice(0, 128)}" is known here: engines keep those that are made with "store" for some time, and lose them when they end.`;
  throw new HttpError(404, message, 'response_not_found');
}

/**
 * Returns why a job may not ask about a response that an engine keeps, nor go on from one, or null: stored jobs of
 * every submitter go to any worker.
 * @param previousId `previous_response_id` of the body
 */
export function keptResponseProblem(path: unknown, previousId: unknown): string | null {
  if (typeof path !== 'string' || !path.startsWith(MADE)) return null;
  if (askedAbout(path) === null && (previousId ?? null) === null) return null;
  return `a response that an engine keeps is asked about, and gone on from, by requests to ${MADE} alone, not by jobs.`;
}

/** Returns the id of the response that a path is about, or null. */
function askedAbout(path: string): string | null {
  const [, asked] = ABOUT_ONE.exec(path) ?? [];
  // `render` is a route of its own, not a response.
  return asked === undefined || asked === 'render' ? null : percentDecoded(asked);
}

/** Returns whether callers may ask later about the response that a request makes. */
export function makesResponse(method: string, path: string): boolean {
  return method === 'POST' && path.split('?', 1)[0] === MADE;
}

/**
 * Returns the answer, unchanged. Before the caller can read the response's id, the fleet object knows which worker has
 * the response.
 */
export function rememberingOwner(
  env: Env,
  queueId: string,
  jobId: string,
  tenant: string | null,
  answer: Response,
): Response {
  if (!answer.ok || !answer.body) return answer;
  const remember = async (id: string) => {
    const ledger = await callQueue(env, queueId, (queue) => queue.ledger(jobId, null));
    const worker = ledger?.steps.findLast(({ worker_id }) => worker_id !== null)?.worker_id;
    if (worker) await callFleet(env, queueId, (fleet) => fleet.keepResponse(id, worker, tenant));
  };
  return new Response(answer.body.pipeThrough(idWatch(remember)), answer);
}

/** @param found called with the id, and awaited before the piece with the id goes on */
function idWatch(found: (id: string) => Promise<void>): TransformStream<Uint8Array, Uint8Array> {
  let beginning: string | null = '';
  const decoder = new TextDecoder('latin1');
  return new TransformStream({
    async transform(piece, controller) {
      if (beginning !== null) {
        beginning += decoder.decode(piece.subarray(0, LOOKED_AT_BYTES), { stream: true });
        const [, id] = /"id":\s*"(resp_[^"\\]{1,200})"/.exec(beginning) ?? [];
        if (id !== undefined || beginning.length > LOOKED_AT_BYTES) beginning = null;
        // The caller gets its answer even if the owner cannot be remembered.
        if (id !== undefined) await found(id).catch(() => {});
      }
      controller.enqueue(piece);
    },
  });
}
