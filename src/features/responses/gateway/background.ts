import { aliasesFor } from '../../../gateway/auth/aliases.ts';
import { readerOf } from '../../../gateway/auth/authorize.ts';
import { permissionsOf, requestPriority } from '../../../gateway/auth/permissions.ts';
import { submissionOf } from '../../../gateway/auth/terms.ts';
import { asHttp } from '../../../gateway/bodies/body.ts';
import { HttpError } from '../../../gateway/errors.ts';
import { secondsIn } from '../../../gateway/inference/read-request.ts';
import { readSubmission, rejection } from '../../../gateway/jobs/submissions.ts';
import { submitAndListen } from '../../../gateway/jobs/submit-jobs.ts';
import { callResponses } from '../../../gateway/objects/calls.ts';
import { queueIdOf } from '../../../gateway/objects/ids.ts';
import type { GatewayContext } from '../../../gateway/routes/route.ts';
import { isRequestId, requestHeaders, traceContextOf } from '../../../protocol/index.ts';
import { bodyFacts } from '../../../request-facts/body-facts.ts';
import type { Fields, NewResponse } from '../types.ts';
import { LISTENER, responsesAsk } from './asks.ts';
import { noResponse, unserved } from './errors.ts';
import { streamOf } from './stream.ts';

/**
 * Answers with a response in the background, or its events, once it is stored and its job is submitted. One whose job
 * is refused is deleted, and the job of one that cannot be stored is cancelled and erased.
 * @param bytes what the engine is sent
 * @param store stores the response, if that has not been done: the two commits go side by side
 */
export async function createInBackground(
  context: GatewayContext,
  asked: NewResponse,
  bytes: Uint8Array<ArrayBuffer>,
  store: () => Promise<unknown>,
): Promise<Response> {
  const { env, req } = context;
  const queueId = queueIdOf(env, req.raw);
  const { id } = asked;
  const done = await Promise.allSettled([store(), submit(context, queueId, asked, bytes)]);
  const failed = done.find((one) => one.status === 'rejected');
  if (failed !== undefined) {
    await Promise.allSettled([
      callResponses(env, queueId, (responses) => responses.withdraw(id)),
      responsesAsk(env, queueId).erase(id),
    ]);
    throw failed.reason;
  }
  if (asked.stream) return await streamOf(context, id, -1);
  const response = { ...(JSON.parse(asked.echo) as Fields), status: 'queued', output: [] };
  return context.json(response, 200, { 'x-job-id': id });
}

async function submit(
  context: GatewayContext,
  queueId: string,
  asked: NewResponse,
  bytes: Uint8Array<ArrayBuffer>,
): Promise<void> {
  const { env, req } = context;
  const token = context.get('token');
  const permissions = permissionsOf(token, await aliasesFor(env, queueId, token));
  const headers = requestHeaders(req.raw.headers);
  const { tier, priority: named, requestId } = asHttp(() => bodyFacts(bytes, 'application/json'));
  const given = [headers['x-request-id'], requestId ?? undefined].find(isRequestId);
  const deadlineMs = secondsIn(req.raw.headers, 'X-Queue-Deadline');
  const submission = {
    id: asked.id,
    job_type: 'engine_request',
    payload: {
      method: 'POST',
      path: '/v1/responses',
      body: new TextDecoder().decode(bytes),
      headers: { ...headers, ...(given !== undefined && { 'x-request-id': given }) },
    },
    priority: requestPriority([headers['x-vllm-priority'], named], tier, permissions),
    stream: asked.stream,
    ...(deadlineMs !== undefined && { deadline_seconds: deadlineMs / 1000 }),
  };
  const job = readSubmission(submission, permissions);
  if (job instanceof HttpError) throw job;
  const trace = traceContextOf(req.raw.headers);
  const sent = { ...job, ...submissionOf(token), ...(trace && { trace }) };
  const [answer] = await submitAndListen(env, queueId, [sent], LISTENER);
  if (answer?.ok) return;
  const isUnserved = answer?.reason === 'unknown_pool' || answer?.reason === 'no_pool';
  if (isUnserved) throw unserved(asked.model);
  throw rejection(answer);
}

/** Answers `POST /v1/responses/{id}/cancel`. */
export async function cancelResponse(context: GatewayContext): Promise<Response> {
  const id = context.req.param('id')!;
  const { env } = context;
  const viewer = readerOf(context.get('token'), env);
  const became = await callResponses(env, queueIdOf(env, context.req.raw), (responses) =>
    responses.cancel(id, viewer),
  );
  if (became === null) throw noResponse(id);
  if (became !== 'synchronous') return context.json(became);
  throw new HttpError(400, 'Cannot cancel a synchronous response.');
}
