import { type EngineAnswer, readPieces } from '../../engine/client/types.ts';
import { type EngineRequest, requestHeaders } from '../../protocol/index.ts';
import { finalFailure } from '../failure.ts';
import { askIds, type MovableRequest } from './ask-ids.ts';
import { askUsage } from './ask-usage.ts';
import type { Attempt } from './attempt.ts';
import { audioForm, namesAudio } from './audio-form.ts';
import type { Moving } from './passed-events.ts';
import { requestBody } from './request-body.ts';

/** Routes whose choices have a finish to look for. */
export const COMPLETIONS = /^\/(?:v1\/(?:chat\/)?completions|inference\/v1\/generate)(?:\?|$)/;

/** What engines say to a field that they do not know. */
const REFUSES_FIELD: ReadonlySet<number> = new Set([400, 422]);

type Body = string | Uint8Array | undefined;
type Ask = (body: Body) => Promise<EngineAnswer>;

/** The engine's answer, and what the worker asked for beside the caller's request. */
export interface Answered {
  answer: EngineAnswer;
  /** Its usage, for which the caller did not ask. */
  added: boolean;
  /** How the answer can be moved, or why it stays here; null: nothing is moved. */
  moving: Moving | string | null;
}

/** Sends a request whose answer is kept whole. */
export async function send(attempt: Attempt, request: EngineRequest): Promise<Answered> {
  // Where nothing is fetched no turn of the event loop passes: a caller waits for each.
  const form = namesAudio(request) ? await audioForm(attempt, request) : null;
  const { ask, body } = prepared(attempt, request, form);
  return { ...(await askCounted(attempt, request, ask, body)), moving: null };
}

/** Sends a request whose answer goes to a caller as it comes. */
export async function sendMovable(attempt: Attempt, request: EngineRequest): Promise<Answered> {
  const form = namesAudio(request) ? await audioForm(attempt, request) : null;
  const { ask, body } = prepared(attempt, request, form);
  if (request.continues) return sendContinuation(attempt, request, ask, body);
  const asking = attempt.idsAsking;
  const wanted = idsOf(asking, request, body);
  if (wanted === null || typeof wanted === 'string' || asking === null) {
    return { ...(await askCounted(attempt, request, ask, body)), moving: wanted as string | null };
  }
  const answered = await askCounted(attempt, request, ask, wanted.body);
  if (wanted.body === body) return { ...answered, moving: wanted.moving };
  const { status } = answered.answer;
  if (status < 300) asking.engine = 'takes';
  if (asking.engine === 'takes' || !REFUSES_FIELD.has(status)) return { ...answered, moving: wanted.moving };
  await readPieces(answered.answer.body, () => false);
  const again = await askCounted(attempt, request, ask, body);
  if (again.answer.status < 300) asking.engine = 'refuses';
  return { ...again, moving: REFUSED };
}

/** Whatever this worker does with answers of its own: without the ids the worker would not know what the engine goes on from. */
async function sendContinuation(
  attempt: Attempt,
  request: EngineRequest,
  ask: Ask,
  body: Body,
): Promise<Answered> {
  const wanted = askIds(request, body ?? '');
  if (typeof wanted === 'string') throw finalFailure('invalid_request', `payload.continues: ${wanted}`);
  return { ...(await askCounted(attempt, request, ask, wanted.body)), moving: wanted.moving };
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

/** With the usage asked for where the queue counts it. */
async function askCounted(
  attempt: Attempt,
  request: EngineRequest,
  ask: Ask,
  body: Body,
): Promise<Omit<Answered, 'moving'>> {
  const asking = body !== undefined && COMPLETIONS.test(request.path) ? attempt.usageAsking : null;
  const wanted = asking === null || asking.engine === 'refuses' ? null : askUsage(body!);
  if (asking === null || wanted === null) return { answer: await ask(body), added: false };
  const answer = await ask(wanted);
  if (answer.status < 300) asking.engine = 'takes';
  if (asking.engine === 'takes' || !REFUSES_FIELD.has(answer.status)) return { answer, added: true };
  // The caller's own mistake, or the field that was put in: an engine need not say which.
  await readPieces(answer.body, () => false);
  const again = await ask(body);
  if (again.status < 300) asking.engine = 'refuses';
  return { answer: again, added: false };
}
