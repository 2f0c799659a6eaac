import { FILE_KEY_MAC_DIGITS, fileKeyMac, isObject, withoutMark } from '../../protocol/index.ts';
import { basePayload } from '../../queue/job-frame.ts';
import type { FileTicket, FileUploadAnswer, PayloadAnswer } from '../../queue/rpc.ts';
import { rejectStrangers } from '../auth/authorize.ts';
import { equalInConstantTime, isOpen } from '../auth/tokens.ts';
import { parseBody, readBody } from '../bodies/body.ts';
import { discardBody, takeTurn } from '../bodies/receive.ts';
import type { Env } from '../env.ts';
import { HttpError, retryAfter } from '../errors.ts';
import { dropJobFile, jobFile, storeJobFile } from '../jobs/job-files.ts';
import { log } from '../log.ts';
import { callQueue } from '../objects/calls.ts';
import { queueIdOf } from '../objects/ids.ts';
import type { RouteRow } from '../openapi/document.ts';
import { type Gateway, type GatewayContext, route } from './route.ts';

const TICKET: RouteRow['query'] = {
  fence_token: { description: 'Of the attempt.', type: 'integer' },
  key: { description: 'From the address; it is the right to use it.' },
};

/**
 * Registers the routes by which workers fetch payloads and put results that are too large for a frame. They need no
 * token: the address carries a key of its own, which a base worker needs, since it sends no header.
 */
export function payloadRoutes(app: Gateway): void {
  route(app, {
    method: 'GET',
    path: '/jobs/:id/payload',
    tag: 'Workers',
    summary: 'A payload that is too large for a frame',
    description: 'No token is asked for: the address, which the job came with, holds a key.',
    scopes: [],
    query: TICKET,
    answers: { 200: { description: 'The payload.', content: {} } },
    errors: [400, 404, 409, 503],
    handler: async (context) => {
      const { queueId, ticket } = await addressOf(context);
      const answer = await callQueue(context.env, queueId, (queue) => queue.payloadOf(ticket));
      if (!answer.ok) throw rejection(answer.reason, ticket.job_id);
      const body = await bodyOf(context.env, queueId, answer.payload);
      const headers = { 'content-type': 'application/json' };
      if (context.req.query('form') !== 'base') return new Response(body, { headers });
      const payload = basePayload(answer.job_type, await new Response(body).text());
      if (payload === null) throw rejection('unknown', ticket.job_id);
      return new Response(payload, { headers });
    },
  });

  route(app, {
    method: 'PUT',
    path: '/jobs/:id/result',
    tag: 'Workers',
    summary: 'A result that is too large for a frame',
    description: 'No token is asked for: the address, which the job came with, holds a key.',
    scopes: [],
    query: TICKET,
    body: {},
    answers: { 201: { description: 'It is kept.', content: { schema: 'Ok' } } },
    errors: [400, 404, 409, 413, 503],
    handler: async (context) => {
      const { queueId, ticket } = await addressOf(context);
      const may = await callQueue(context.env, queueId, (queue) => queue.mayStoreResult(ticket));
      if (!may.ok) {
        // The body is read without being kept: a client that is still sending would not receive the answer.
        await discardBody(context.req.raw);
        throw rejection(may.reason, ticket.job_id);
      }
      const file = { id: `result-${crypto.randomUUID()}`, job: ticket.job_id };
      const { bytes, release } = await readBody(context.req.raw, context.env);
      let endTurn = () => {};
      // The runtime runs nothing below for a request that it drops, as in `readBody`.
      context.req.raw.signal.addEventListener('abort', () => endTurn());
      try {
        endTurn = await takeTurn(bytes.byteLength, context.env);
        rejectNoObject(bytes);
        await storeJobFile(context.env, queueId, file, withoutMark(bytes));
      } finally {
        endTurn();
        release();
      }
      const answer = await callQueue(context.env, queueId, (queue) => queue.storeResult(ticket, file.id));
      if (answer.ok) return context.json({ status: 'ok' }, 201);
      await dropJobFile(context.env, queueId, file.id);
      throw rejection(answer.reason, ticket.job_id);
    },
  });
}

type Payload = Extract<PayloadAnswer, { ok: true }>['payload'];

async function bodyOf(
  env: Env,
  queueId: string,
  payload: Payload,
): Promise<string | Uint8Array<ArrayBuffer> | ReadableStream> {
  if ('text' in payload) return payload.text;
  if ('bytes' in payload) return payload.bytes;
  return (await jobFile(env, queueId, payload.file, () => rejection('unknown', ''))).body;
}

/** @throws HttpError 400 */
function rejectNoObject(bytes: Uint8Array): void {
  const result = parseBody(bytes);
  if (isObject(result)) return;
  throw new HttpError(400, 'A result must be a JSON object.', 'invalid_result');
}

/**
 * Returns the queue and the ticket that the address names, once its key shows that a queue gave it out. A made-up key
 * touches no object, and gets the same answer whether queue and job exist or not.
 * @throws HttpError 404 for a key that no queue gave out; 503 where no secret is configured, so that keys cannot be
 * checked
 */
async function addressOf(context: GatewayContext): Promise<{ queueId: string; ticket: FileTicket }> {
  const { env, req } = context;
  if (isOpen(env)) rejectStrangers(req.raw, env.LOCAL_HOSTS);
  if (!env.FILE_KEY_SECRET) {
    const message =
      'Large payloads and results cannot be fetched or stored here: the secret FILE_KEY_SECRET is not set. Set it to a long random text ("npx wrangler secret put FILE_KEY_SECRET") and start the queue again.';
    log('error', message);
    throw new HttpError(503, message, 'file_key_secret_missing', retryAfter(60));
  }
  const key = req.query('key') ?? '';
  const mac = await fileKeyMac(env.FILE_KEY_SECRET, req.query('queue_id') ?? '');
  if (!equalInConstantTime(key.slice(0, FILE_KEY_MAC_DIGITS), mac)) {
    await discardBody(req.raw);
    throw rejection('unknown', '');
  }
  return { queueId: queueIdOf(env, req.raw, req.query('queue_id')), ticket: ticketOf(context) };
}

function ticketOf(context: GatewayContext): FileTicket {
  const fence = context.req.query('fence_token') ?? '';
  if (!/^\d{1,15}$/.test(fence)) {
    throw new HttpError(400, 'fence_token: expected the number the job came with.', 'invalid_fence_token');
  }
  const id = context.req.param('id') as string;
  return { job_id: id, fence_token: Number(fence), key: context.req.query('key') ?? '' };
}

function rejection(reason: Extract<FileUploadAnswer, { ok: false }>['reason'], jobId: string): HttpError {
  if (reason === 'stale') {
    return new HttpError(409, `Job ${jobId} is settled or was given to another attempt.`, 'stale_attempt');
  }
  return new HttpError(404, 'There is no such file, or its key is another.', 'file_not_found');
}
