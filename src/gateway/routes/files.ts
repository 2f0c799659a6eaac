import type { FileRecord } from '../../files/file-index.ts';
import { FILE_PURPOSES, type FilePurpose, type StoredFile } from '../../protocol/file-answers.ts';
import { idOf } from '../../protocol/ids.ts';
import { QUEUE_SETTINGS } from '../../settings/queue-settings.ts';
import { auditedOfOthers } from '../audit.ts';
import { readerOf, tenantOf, viewerOf } from '../auth/authorize.ts';
import { storeUpload, type Uploaded } from '../bodies/upload.ts';
import { HttpError } from '../errors.ts';
import { callBatches, callFiles } from '../objects/calls.ts';
import { queueIdOf } from '../objects/ids.ts';
import { invalidParameter, listOf, wholeNumber } from '../parameters.ts';
import { type Gateway, type GatewayContext, route } from './route.ts';

/** The files of a page unless the caller asks for fewer, and the most: OpenAI's number. */
const MOST_LISTED = 10_000;

/** OpenAI's bounds of `expires_after[seconds]`. */
const EXPIRES_SECONDS = { least: 3600, most: 2_592_000 };

/** The purposes that callers may give a file; batches make the other files. */
const UPLOADED: readonly FilePurpose[] = FILE_PURPOSES.filter((purpose) => purpose !== 'batch_output');

/** Registers OpenAI's Files API. */
export function fileRoutes(app: Gateway): void {
  route(app, {
    method: 'POST',
    path: '/v1/files',
    tag: 'Files',
    summary: 'Uploads a file',
    description:
      'A form with `file`, `purpose` (batch or user_data) and, if wanted, `expires_after[anchor]` and `expires_after[seconds]`, in any order. A body that is no form is the file itself, with these in the query.',
    scopes: ['submit'],
    query: {
      purpose: { description: 'What it is for, where the body is no form.', enum: ['batch', 'user_data'] },
      filename: { description: 'Its name, where the body is no form.' },
    },
    body: [{ type: 'multipart/form-data' }, { type: 'application/jsonl' }],
    answers: { 200: { description: 'The file.', content: { schema: 'StoredFile' } } },
    errors: [400, 408, 413, 429, 503],
    handler: async (context) => {
      const { env, executionCtx, req } = context;
      const queueId = queueIdOf(env, req.raw);
      const most = Number(env.MAX_FILE_BYTES || QUEUE_SETTINGS.max_file_bytes.default);
      const tenant = tenantOf(context.get('token'));
      const id = idOf('file', queueId);
      // Pieces that cannot be removed now expire: the object was not told to keep them.
      const abandon = () =>
        executionCtx.waitUntil(callFiles(env, queueId, (files) => files.remove(id)).catch(() => {}));
      try {
        const uploaded = await storeUpload(req.raw, env, { queueId, id, tenant, most }, abandon);
        const file = recordOf(id, uploaded, context, Date.now());
        // In this order, a listed file is always kept, even where the second call fails.
        await callFiles(env, queueId, (files) => files.keep(id, file.expires_at));
        await callBatches(env, queueId, (batches) => batches.addFile(file));
        return context.json(fileView(file));
      } catch (error) {
        abandon();
        throw error;
      }
    },
  });

  route(app, {
    method: 'GET',
    path: '/v1/files',
    tag: 'Files',
    summary: 'The files there are, newest first',
    scopes: ['submit', 'read'],
    query: {
      purpose: { description: 'Only these.', enum: ['batch', 'batch_output', 'user_data'] },
      limit: { description: 'Files of a page, at most 10,000.', type: 'integer' },
      order: { description: 'By when they were uploaded.', enum: ['asc', 'desc'] },
      after: { description: 'The last file of the page before.' },
    },
    answers: { 200: { description: 'A page.', content: { schema: 'StoredFileList' } } },
    errors: [400, 404, 503],
    handler: async (context) => {
      const { env, req } = context;
      const queueId = queueIdOf(env, req.raw);
      const viewer = viewerOf(context.get('token'));
      const { purpose = null, after = null, order = 'desc', limit } = req.query();
      if (order !== 'asc' && order !== 'desc') throw invalidParameter('order: expected "asc" or "desc"');
      const wanted = {
        purpose: purpose === null ? null : purposeOf(purpose, FILE_PURPOSES),
        after,
        order,
        viewer,
      } as const;
      const most = limit === undefined ? MOST_LISTED : wholeNumber('limit', limit, 1, MOST_LISTED);
      const page = await callBatches(env, queueId, (batches) =>
        batches.listFiles({ ...wanted, limit: most }),
      );
      if (page === null) throw notFound(String(after));
      return context.json(listOf(page.files.map(fileView), page.has_more));
    },
  });

  route(app, {
    method: 'GET',
    path: '/v1/files/:id',
    tag: 'Files',
    summary: 'One of them',
    scopes: ['submit', 'read'],
    answers: { 200: { description: 'The file.', content: { schema: 'StoredFile' } } },
    errors: [404, 503],
    handler: async (context) => {
      const { file } = await findFile(context);
      return context.json(fileView(file));
    },
  });

  route(app, {
    method: 'GET',
    path: '/v1/files/:id/content',
    tag: 'Files',
    summary: 'Its bytes',
    scopes: ['submit'],
    answers: { 200: { description: 'The bytes.', content: { type: 'application/octet-stream' } } },
    errors: [404, 503],
    handler: async (context) => {
      const { file, queueId } = await findFile(context, readerOf(context.get('token'), context.env));
      // Only the object knows the length of what a batch has written so far.
      const {
        ok,
        body,
        headers: known,
      } = await callFiles(context.env, queueId, (files) => files.content(file.id));
      if (!ok) throw bucketFails();
      const headers = {
        'content-type': 'application/octet-stream',
        'content-length': known.get('content-length') ?? String(file.bytes),
        // Browsers must not show the file: it may be a web page.
        'content-disposition': 'attachment',
      };
      return new Response(body, { headers });
    },
  });

  route(app, {
    method: 'DELETE',
    path: '/v1/files/:id',
    tag: 'Files',
    summary: 'Deletes it',
    scopes: ['submit'],
    answers: { 200: { description: 'It is gone.', content: {} } },
    errors: [404, 409, 503],
    handler: async (context) => {
      const { file, queueId } = await findFile(context);
      const viewer = viewerOf(context.get('token'));
      const remove = async () => {
        const answer = await callBatches(context.env, queueId, (batches) =>
          batches.removeFile(file.id, viewer),
        );
        if (answer === 'unknown') throw notFound(file.id);
        if (answer === 'in_use') {
          const message = `A batch that has not ended reads the file ${file.id}: cancel it first, or wait for its end.`;
          throw new HttpError(409, message, 'file_in_use');
        }
        await callFiles(context.env, queueId, (files) => files.remove(file.id));
      };
      const { filename, purpose, bytes } = file;
      const entry = { action: 'file.delete', target: file.id, before: { filename, purpose, bytes } } as const;
      await auditedOfOthers(context, file.tenant, entry, remove);
      return context.json({ id: file.id, object: 'file', deleted: true });
    },
  });
}

async function findFile(
  context: GatewayContext,
  viewer = viewerOf(context.get('token')),
): Promise<{ file: FileRecord; queueId: string }> {
  const queueId = queueIdOf(context.env, context.req.raw);
  const id = context.req.param('id') as string;
  const file = await callBatches(context.env, queueId, (batches) => batches.findFile(id, viewer));
  if (file === null) throw notFound(id);
  return { file, queueId };
}

/**
 * Returns the record of an upload, once all of it has come: clients send the fields before the file or after it. A
 * body that is the file itself has them in the address.
 * @throws HttpError 400
 */
function recordOf(id: string, uploaded: Uploaded, context: GatewayContext, now: number): FileRecord {
  if (uploaded.filename === null) throw invalidParameter('file: expected a file in the form');
  const { purpose, filename, ...more } = {
    ...context.req.query(),
    ...Object.fromEntries(uploaded.fields),
  };
  const seconds = more['expires_after[seconds]'];
  const anchor = more['expires_after[anchor]'];
  if (seconds === undefined && anchor !== undefined)
    throw invalidParameter('expires_after[seconds]: expected a number');
  if (anchor !== undefined && anchor !== 'created_at')
    throw invalidParameter('expires_after[anchor]: expected "created_at"');
  const { least, most } = EXPIRES_SECONDS;
  const asked = seconds === undefined ? null : wholeNumber('expires_after[seconds]', seconds, least, most);
  const usual = Number(context.env.FILE_RETENTION_SECONDS || QUEUE_SETTINGS.file_retention_seconds.default);
  return {
    id,
    tenant: tenantOf(context.get('token')),
    filename: uploaded.filename || filename || 'upload',
    purpose: purposeOf(purpose, UPLOADED),
    bytes: uploaded.bytes,
    created_at: now,
    expires_at: now + (asked ?? usual) * 1000,
  };
}

function purposeOf(text: string | undefined, possible: readonly FilePurpose[]): FilePurpose {
  const purpose = possible.find((one) => one === text);
  if (purpose === undefined) {
    throw invalidParameter(`purpose: expected ${possible.map((one) => `"${one}"`).join(' or ')}`);
  }
  return purpose;
}

/** Returns a file in the form of OpenAI's API. It is `processed` at once, since OpenAI's clients wait for that. */
function fileView({ id, bytes, created_at, expires_at, filename, purpose }: FileRecord): StoredFile {
  return {
    id,
    object: 'file',
    bytes,
    created_at: Math.floor(created_at / 1000),
    expires_at: expires_at === null ? null : Math.floor(expires_at / 1000),
    filename,
    purpose,
    status: 'processed',
    status_details: null,
  };
}

function notFound(id: string): HttpError {
  return new HttpError(404, `There is no file ${JSON.stringify(id.slice(0, 100))}.`, 'file_not_found');
}

function bucketFails(): HttpError {
  const message = 'The bucket of files cannot be used at the moment; the log of the queue says why.';
  return new HttpError(503, message, 'bucket_unreadable', { 'retry-after': '5' });
}
