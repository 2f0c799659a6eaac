import { type Batch, type NewBatch, windowMs } from '../../batches/batch.ts';
import type * as answers from '../../protocol/file-answers.ts';
import { idOf } from '../../protocol/ids.ts';
import { ANY_ENDPOINT, inferenceRoutes, parseValue, type Waiting } from '../../protocol/index.ts';
import { QUEUE_SETTINGS } from '../../settings/queue-settings.ts';
import { auditedOfOthers } from '../audit.ts';
import { aliasesFor } from '../auth/aliases.ts';
import { submitterOf, viewerOf } from '../auth/authorize.ts';
import { jobRouteProblem, permissionsOf } from '../auth/permissions.ts';
import { readValue } from '../bodies/body.ts';
import { HttpError } from '../errors.ts';
import { waitingOfBatch } from '../objects/batches.ts';
import { callBatches } from '../objects/calls.ts';
import { queueIdOf } from '../objects/ids.ts';
import { BatchRequest } from '../openapi/requests.ts';
import { listOf, wholeNumber } from '../parameters.ts';
import { type Gateway, type GatewayContext, route } from './route.ts';

/** Returns a batch in the form of OpenAI's API. */
function batchView(batch: Batch, waiting: Waiting | null = null): answers.Batch {
  const { usage, faults, total, completed, failed } = batch;
  const isClosed = (batch.completed_at ?? batch.cancelled_at ?? batch.expired_at) !== null;
  const output = batch.output_lines > 0 ? batch.output_file_id : null;
  const errors = batch.error_lines > 0 ? batch.error_file_id : null;
  return {
    id: batch.id,
    object: 'batch',
    endpoint: batch.endpoint,
    errors: batch.status === 'failed' ? { object: 'list', data: faults } : null,
    input_file_id: batch.input_file_id,
    completion_window: batch.completion_window,
    status: batch.status,
    output_file_id: isClosed ? output : null,
    error_file_id: isClosed ? errors : null,
    partial_output_file_id: isClosed ? null : output,
    partial_error_file_id: isClosed ? null : errors,
    created_at: seconds(batch.created_at),
    in_progress_at: seconds(batch.in_progress_at),
    expires_at: seconds(batch.expires_at),
    finalizing_at: seconds(batch.finalizing_at),
    completed_at: seconds(batch.completed_at),
    failed_at: seconds(batch.failed_at),
    expired_at: seconds(batch.expired_at),
    cancelling_at: seconds(batch.cancelling_at),
    cancelled_at: seconds(batch.cancelled_at),
    request_counts: { total, completed, failed },
    error_counts: batch.error_counts ?? {},
    usage: {
      input_tokens: usage.input_tokens,
      input_tokens_details: { cached_tokens: usage.cached_tokens },
      output_tokens: usage.output_tokens,
      output_tokens_details: { reasoning_tokens: usage.reasoning_tokens },
      total_tokens: usage.input_tokens + usage.output_tokens,
    },
    metadata: batch.metadata,
    ...(waiting !== null && { waiting }),
  };
}

function seconds<T extends number | null>(ms: T): T {
  return (ms === null ? null : Math.floor(ms / 1000)) as T;
}

/** The batches of a page: OpenAI's numbers. */
const PAGE = { usual: 20, most: 100 };
const BODY_BYTES = 64 * 1024;

/** Registers OpenAI's Batch API. */
export function batchRoutes(app: Gateway): void {
  route(app, {
    method: 'POST',
    path: '/v1/batches',
    tag: 'Files',
    summary: 'Runs every line of a file',
    description:
      'The lines are read afterwards: what is wrong with them shows in the batch, which then has the status failed.',
    scopes: ['submit'],
    headers: {
      'Idempotency-Key': { description: 'Sent again with the same key, a request makes nothing new.' },
    },
    body: {
      schema: 'BatchRequest',
      example: { input_file_id: 'file-1', endpoint: '/v1/chat/completions', completion_window: '24h' },
    },
    answers: { 200: { description: 'The batch.', content: { schema: 'Batch' } } },
    errors: [400, 404, 413, 503],
    handler: async (context) => {
      const { env, req } = context;
      const queueId = queueIdOf(env, req.raw);
      const asked = await newBatch(await readValue(req.raw, env, BODY_BYTES), context, Date.now());
      const key = req.header('idempotency-key') ?? null;
      const batch = await callBatches(env, queueId, (batches) => batches.createBatch(asked, key));
      if (batch === null) {
        const message = `input_file_id: there is no file ${JSON.stringify(asked.input_file_id)}.`;
        throw new HttpError(404, message, 'file_not_found');
      }
      return context.json(batchView(batch));
    },
  });

  route(app, {
    method: 'GET',
    path: '/v1/batches',
    tag: 'Files',
    summary: 'The batches there are, newest first',
    scopes: ['submit', 'read'],
    query: {
      limit: { description: 'Batches of a page, 20 unless given, at most 100.', type: 'integer' },
      after: { description: 'The last batch of the page before.' },
    },
    answers: { 200: { description: 'A page.', content: { schema: 'BatchList' } } },
    errors: [400, 404, 503],
    handler: async (context) => {
      const { env, req } = context;
      const queueId = queueIdOf(env, req.raw);
      const { after = null, limit } = req.query();
      const wanted = {
        after,
        limit: limit === undefined ? PAGE.usual : wholeNumber('limit', limit, 1, PAGE.most),
        viewer: viewerOf(context.get('token')),
      };
      const page = await callBatches(env, queueId, (batches) => batches.listBatches(wanted));
      if (page === null) throw notFound(String(after));
      const batches = await Promise.all(page.batches.map((batch) => shown(context, batch)));
      return context.json(listOf(batches, page.has_more));
    },
  });

  route(app, {
    method: 'GET',
    path: '/v1/batches/:id',
    tag: 'Files',
    summary: 'One of them',
    scopes: ['submit', 'read'],
    answers: { 200: { description: 'The batch.', content: { schema: 'Batch' } } },
    errors: [404, 503],
    handler: async (context) => {
      const batch = await about(context, (batches, id, viewer) => batches.findBatch(id, viewer));
      return context.json(await shown(context, batch));
    },
  });

  route(app, {
    method: 'POST',
    path: '/v1/batches/:id/cancel',
    tag: 'Files',
    summary: 'Cancels it; what has been run is kept',
    scopes: ['submit'],
    answers: { 200: { description: 'The batch.', content: { schema: 'Batch' } } },
    errors: [404, 503],
    handler: async (context) => {
      const { id, tenant, status } = await about(context, (batches, id, viewer) =>
        batches.findBatch(id, viewer),
      );
      const cancel = () => about(context, (batches, id, viewer) => batches.cancelBatch(id, viewer));
      const entry = { action: 'batch.cancel', target: id, before: { status } } as const;
      const batch = await auditedOfOthers(context, tenant, entry, cancel, (after) => ({
        status: after.status,
      }));
      return context.json(batchView(batch));
    },
  });
}

/** Returns a batch as callers see it, with what it waits for. */
async function shown({ env, req }: GatewayContext, batch: Batch) {
  return batchView(batch, await waitingOfBatch(env, queueIdOf(env, req.raw), batch));
}

type BatchesStub = Parameters<Parameters<typeof callBatches>[2]>[0];

/** Returns what `ask` answers about the batch that the path names. @throws HttpError 404 */
async function about(
  context: GatewayContext,
  ask: (batches: BatchesStub, id: string, viewer: string | null) => Promise<Batch | null>,
): Promise<Batch> {
  const queueId = queueIdOf(context.env, context.req.raw);
  const id = context.req.param('id') as string;
  const viewer = viewerOf(context.get('token'));
  const batch = await callBatches(context.env, queueId, (batches) => ask(batches, id, viewer));
  if (batch === null) throw notFound(id);
  return batch;
}

/**
 * Reads the request for a new batch and refuses a faulty one. Faults of the file show in the batch, as clients expect.
 */
async function newBatch(body: unknown, context: GatewayContext, now: number): Promise<NewBatch> {
  const { env } = context;
  const parsed = parseValue(BatchRequest, body);
  if (!parsed.ok) throw new HttpError(400, `${parsed.message}.`, 'invalid_batch');
  const { input_file_id, endpoint, completion_window, metadata, output_expires_after } = parsed.value;
  const token = context.get('token');
  const queueId = queueIdOf(env, context.req.raw);
  const permissions = permissionsOf(token, await aliasesFor(env, queueId, token));
  const { models, routes } = permissions;
  if (endpoint !== ANY_ENDPOINT && !inferenceRoutes(env.INFERENCE_ROUTES).has('POST', endpoint)) {
    const message = `endpoint: POST ${endpoint} is no inference route; docs/http.md lists them. "${ANY_ENDPOINT}" stands for any of them.`;
    throw new HttpError(400, message, 'invalid_endpoint');
  }
  const denied = endpoint === ANY_ENDPOINT ? null : jobRouteProblem(endpoint, permissions);
  if (denied) throw denied;
  const window = windowMs(completion_window);
  if (window === null) {
    const message = 'completion_window: expected "24h", or another number of m, h or d up to 30d.';
    throw new HttpError(400, message, 'invalid_completion_window');
  }
  const usual = Number(env.FILE_RETENTION_SECONDS || QUEUE_SETTINGS.file_retention_seconds.default);
  return {
    id: idOf('batch', queueId),
    ...submitterOf(context.get('token')),
    ...(models && { token_models: models }),
    ...(routes && { token_routes: routes }),
    input_file_id,
    endpoint,
    completion_window,
    metadata: metadata ?? null,
    output_kept_ms: (output_expires_after?.seconds ?? usual) * 1000,
    most_lines: Number(env.MAX_BATCH_LINES || QUEUE_SETTINGS.max_batch_lines.default),
    output_file_id: idOf('file', queueId),
    error_file_id: idOf('file', queueId),
    created_at: now,
    expires_at: now + window,
  };
}

function notFound(id: string): HttpError {
  return new HttpError(404, `There is no batch ${JSON.stringify(id.slice(0, 100))}.`, 'batch_not_found');
}
