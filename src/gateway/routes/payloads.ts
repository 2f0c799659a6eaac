import { limits } from '../../protocol/index.ts';
import type { FileAnswer, FileTicket } from '../../queue/calls.ts';
import { parseBody, readText } from '../body.ts';
import { HttpError } from '../errors.ts';
import { callQueue, queueIdOf } from '../queues.ts';
import type { Gateway, GatewayContext } from './types.ts';

/**
 * Payloads and results too large for a frame, fetched and put by workers. No token is asked for: the address
 * carries a key of its own, which a base worker needs, since it sends no header.
 */
export function payloadRoutes(app: Gateway): void {
  app.get('/jobs/:id/payload', async (context) => {
    const form = context.req.query('form') === 'base' ? 'base' : 'own';
    const ticket = ticketOf(context);
    const answer = await callQueue(context.env, queueIdOf(context.req.raw), (queue) =>
      queue.readFile(ticket, form),
    );
    if (!answer.ok) throw refusal(answer.reason, ticket.job_id);
    return new Response(answer.bytes, { headers: { 'content-type': 'application/json' } });
  });

  app.put('/jobs/:id/result', async (context) => {
    const ticket = ticketOf(context);
    const queueId = queueIdOf(context.req.raw);
    const may = await callQueue(context.env, queueId, (queue) => queue.mayStoreFile(ticket));
    if (!may.ok) {
      // Read without being kept: a client that is still sending would not hear the answer.
      await readText(context.req.raw, 0).catch(() => {});
      throw refusal(may.reason, ticket.job_id);
    }
    const text = await readText(context.req.raw, limits.PAYLOAD_BYTES);
    const result = parseBody(text);
    if (typeof result !== 'object' || result === null || Array.isArray(result)) {
      throw new HttpError(400, 'A result must be a JSON object.', 'invalid_result');
    }
    // Bytes, since a text with one emoji would take two bytes for every letter on its way to the object.
    const bytes = new TextEncoder().encode(text);
    const answer = await callQueue(context.env, queueId, (queue) => queue.storeFile(ticket, bytes));
    if (!answer.ok) throw refusal(answer.reason, ticket.job_id);
    return context.json({ status: 'ok' }, 201);
  });
}

function ticketOf(context: GatewayContext): FileTicket {
  const fence = context.req.query('fence_token') ?? '';
  if (!/^\d{1,15}$/.test(fence)) {
    throw new HttpError(400, 'fence_token: expected the number the job came with.', 'invalid_fence_token');
  }
  const id = context.req.param('id') as string;
  return { job_id: id, fence_token: Number(fence), key: context.req.query('key') ?? '' };
}

function refusal(reason: Extract<FileAnswer, { ok: false }>['reason'], jobId: string): HttpError {
  if (reason === 'stale') {
    return new HttpError(409, `Job ${jobId} is settled or was given to another attempt.`, 'stale_attempt');
  }
  return new HttpError(404, 'There is no such file, or its key is another.', 'file_not_found');
}
