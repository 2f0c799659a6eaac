import { type EngineAnswer, readPieces } from '../../engine/client/types.ts';
import { type EngineRequest, hasChoices, requestHeaders } from '../../protocol/index.ts';
import { finalFailure } from '../failure.ts';
import { askIds, askUsage, type MovableRequest, type Moving } from './added-fields.ts';
import type { Attempt } from './attempt.ts';
import { audioForm, namesAudio, requestBody } from './request-body.ts';

/** The statuses with which engines refuse a field that they do not know. */
const REFUSES_FIELD: ReadonlySet<number> = new Set([400, 422]);

type Body = string | Uint8Array | undefined;
type Ask = (body: Body) => Promise<EngineAnswer>;

/** The engine's answer, and what the worker requested in addition to the caller's request. */
export interface Answered {
  answer: EngineAnswer;
  /** True if the worker requested the usage, for which the caller did not ask. */
  added: boolean;
  /** The way to move the answer, or the reason why it stays here; null: nothing is moved. */
  moving: Moving | string | null;
}

/** Sends a request whose answer is kept whole. */
export async function send(attempt: Attempt, request: EngineRequest): Promise<Answered> {
  // Where nothing is fetched no turn of the event loop passes: a caller waits for each turn.
  const form = namesAudio(request) ? await audioForm(attempt, request) : null;
  const { ask, body } = prepared(attempt, request, form);
  return askMore(attempt, request, ask, body, null);
}

/** Sends a request whose answer goes to a caller as it comes. */
export async function sendMovable(attempt: Attempt, request: EngineRequest): Promise<Answered> {
  const form = namesAudio(request) ? await audioForm(attempt, request) : null;
  const { ask, body } = prepared(attempt, request, form);
  if (request.continues) return sendContinuation(attempt, request, ask, body);
  return askMore(attempt, request, ask, body, idsOf(attempt.idsAsking, request, body));
}

/**
 * Sends the request of a continuation with the ids, whether this worker moves its own answers or not: without the ids
 * it would not know what the engine goes on from.
 */
async function sendContinuation(
  attempt: Attempt,
  request: EngineRequest,
  ask: Ask,
  body: Body,
): Promise<Answered> {
  const wanted = askIds(request, body ?? '');
  if (typeof wanted === 'string') throw finalFailure('invalid_request', `payload.continues: ${wanted}`);
  return { ...(await askMore(attempt, request, ask, wanted.body, null)), moving: wanted.moving };
}

const REFUSED = 'its engine tells no token ids';

function idsOf(
  asking: Attempt['idsAsking'],
  request: EngineRequest,
  body: Body,
): MovableRequest | string | null {
  if (asking === null) return null;
  if (asking.engine === 'refuses') return REFUSED;
  return body === undefined ? 'it has no body' : askIds(request, body);
}

function prepared(
  attempt: Attempt,
  request: EngineRequest,
  form: Awaited<ReturnType<typeof audioForm>> | null,
): { ask: Ask; body: Body } {
  const body = form?.body ?? requestBody(request, attempt.modelAliases, attempt.servedModel);
  const contentType = form?.contentType ?? request.content_type;
  const { 'x-request-id': requestId = attempt.jobId, ...headers } = requestHeaders(
    Object.entries(request.headers ?? {}),
  );
  attempt.requested();
  const ask: Ask = (body) =>
    attempt.engine.request({
      method: request.method,
      path: request.path,
      headers,
      requestId,
      signal: attempt.signal,
      ...(body === undefined ? {} : { body }),
      ...(contentType === undefined ? {} : { contentType }),
    });
  return { ask, body };
}

/**
 * Sends a request and asks as well for what the worker wants to know beside the answer: the usage, where the queue
 * counts it, and token ids. If it is not known whether the engine takes these fields, a refusal may be due to them or
 * to the caller's own mistake, and an engine need not say which: the worker repeats the request once, without them.
 */
async function askMore(
  attempt: Attempt,
  request: EngineRequest,
  ask: Ask,
  body: Body,
  movable: MovableRequest | string | null,
): Promise<Answered> {
  const usage = body !== undefined && hasChoices(request.path) ? attempt.usageAsking : null;
  const ids = movable === null || typeof movable === 'string' || movable.body === body ? null : movable;
  const first = withUsage(usage, ids?.body ?? body);
  const answer = await ask(first.body);
  const asked = [first.added ? usage : null, ids && attempt.idsAsking].filter((one) => one !== null);
  if (answer.status < 300) for (const one of asked) one.engine = 'takes';
  const untried = asked.filter(({ engine }) => engine === 'untried');
  const moving = typeof movable === 'string' ? movable : (movable?.moving ?? null);
  if (untried.length === 0 || !REFUSES_FIELD.has(answer.status))
    return { answer, added: first.added, moving };
  await readPieces(answer.body, () => false);
  const hasIds = ids !== null && attempt.idsAsking?.engine === 'takes';
  const again = withUsage(usage?.engine === 'takes' ? usage : null, hasIds ? ids.body : body);
  const answered = await ask(again.body);
  // Where two fields are untried, the next request finds out about the other one.
  if (answered.status < 300) untried.at(-1)!.engine = 'refuses';
  return { answer: answered, added: again.added, moving: ids === null || hasIds ? moving : REFUSED };
}

/** Puts the request for usage into a body. @param asking null: the worker does not ask for usage */
function withUsage(asking: Attempt['usageAsking'], body: Body): { body: Body; added: boolean } {
  const wanted = asking === null || asking.engine === 'refuses' ? null : askUsage(body!);
  return wanted === null ? { body, added: false } : { body: wanted, added: true };
}
