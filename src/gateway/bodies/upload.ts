import { PIECE_BYTES } from '../../files/file-index.ts';
import { FileForm, type FormFields, PieceCutter } from '../../files/upload.ts';
import { boundaryOf, FormError } from '../../protocol/index.ts';
import type { Env } from '../env.ts';
import { HttpError, retryAfter } from '../errors.ts';
import { callFiles } from '../objects/calls.ts';
import { holdBytes } from './body.ts';
import { announcedLength, discardBody, RECEIVE_BYTES, receive } from './receive.ts';

/**
 * The most uploads at a time, of one tenant and in all. Each holds its memory as long as its sender takes, so one
 * tenant must not take all places, nor uploads the memory of other bodies.
 */
const MOST_UPLOADS = { ofTenant: 16, ofAll: 48 };
/**
 * The memory of one upload, bytes: the piece being filled, its copy on its way to the object, and twice the last
 * chunk.
 */
const UPLOAD_BYTES = 2 * (PIECE_BYTES + RECEIVE_BYTES);

/** The most bytes that a form has beside those of its file. */
const FORM_BYTES = 64 * 1024;

const uploads = { ofAll: 0, ofTenant: new Map<string, number>() };

/** An upload whose bytes are stored; the object keeps it only when told to. */
export interface Uploaded extends FormFields {
  bytes: number;
}

/**
 * Stores the body of a request, a form with one file or the file itself, piece by piece as it comes.
 * @param tenant the tenant of the upload; null where no tokens are configured
 * @param most the most bytes of the file
 * @param abandon called when the caller has left: the runtime runs nothing after this call then
 * @throws HttpError 400 for a body that is no such form, 408 when it comes too slowly, 413 when the file is too long,
 * 429 and 503 while there are too many uploads
 */
export async function storeUpload(
  request: Request,
  env: Env,
  { queueId, id, tenant, most }: { queueId: string; id: string; tenant: string | null; most: number },
  abandon: () => void,
): Promise<Uploaded> {
  let release = () => {};
  try {
    if ((announcedLength(request) ?? 0) > most + FORM_BYTES) throw tooLong(most);
    release = takePlace(env, tenant);
    // The runtime runs nothing below for a request that it drops, as in `readBody`.
    request.signal.addEventListener('abort', () => {
      release();
      abandon();
    });
    return await store(request, env, { queueId, id, most });
  } catch (error) {
    release();
    await discardBody(request, 0);
    if (!(error instanceof FormError)) throw error;
    throw new HttpError(
      400,
      `The body is not a multipart form as expected: ${error.message}.`,
      'invalid_form',
    );
  } finally {
    release();
  }
}

async function store(
  request: Request,
  env: Env,
  { queueId, id, most }: { queueId: string; id: string; most: number },
): Promise<Uploaded> {
  let number = 0;
  let stored = Promise.resolve(true);
  const cutter = new PieceCutter(PIECE_BYTES, (piece) => {
    const own = number++;
    // The buffer is reused only after the call has ended.
    stored = callFiles(env, queueId, (files) => files.put(id, own, piece));
  });
  const form = readerOf(request, (bytes) => cutter.push(bytes));
  let problem: unknown = null;
  if (request.body) {
    await receive(request.body, async (piece) => {
      try {
        form.push(piece);
        if (cutter.bytes > most) throw tooLong(most);
        if (!(await stored)) throw broken();
      } catch (error) {
        problem = error;
      }
      return problem === null;
    });
  }
  if (problem !== null) throw problem;
  const fields = form.end();
  cutter.end();
  // An empty file has one piece, too.
  if (number === 0) stored = callFiles(env, queueId, (files) => files.put(id, 0, new Uint8Array()));
  if (!(await stored)) throw broken();
  return { ...fields, bytes: cutter.bytes };
}

/** Returns the reader of an upload's bytes: a form, or the file as it is. */
function readerOf({ headers }: Request, onFile: (bytes: Uint8Array) => void): Pick<FileForm, 'push' | 'end'> {
  const boundary = boundaryOf(headers.get('content-type'));
  if (boundary !== null) return new FileForm(boundary, onFile);
  return { push: onFile, end: () => ({ filename: '', fields: new Map() }) };
}

/** Takes a place among the uploads. @returns a function that gives it back, once @throws HttpError 429, 503 */
function takePlace(env: Env, tenant: string | null): () => void {
  const own = tenant === null ? 0 : (uploads.ofTenant.get(tenant) ?? 0);
  if (own >= MOST_UPLOADS.ofTenant) {
    const message = `${own} uploads of this token are on their way, as many as may be at a time: try again when one has ended.`;
    throw new HttpError(429, message, 'too_many_uploads', retryAfter(1));
  }
  if (uploads.ofAll >= MOST_UPLOADS.ofAll) {
    const message = `${uploads.ofAll} uploads are on their way, as many as may be at a time: try again in a moment.`;
    throw new HttpError(503, message, 'too_many_uploads', retryAfter(1));
  }
  const releaseBytes = holdBytes(env, UPLOAD_BYTES);
  const count = (by: number) => {
    uploads.ofAll += by;
    if (tenant === null) return;
    const left = (uploads.ofTenant.get(tenant) ?? 0) + by;
    if (left === 0) uploads.ofTenant.delete(tenant);
    else uploads.ofTenant.set(tenant, left);
  };
  count(1);
  let isReleased = false;
  return () => {
    if (isReleased) return;
    isReleased = true;
    releaseBytes();
    count(-1);
  };
}

function tooLong(most: number): HttpError {
  const message = `The file is larger than ${Math.floor(most / 1024 / 1024)} MiB: split it into several files.`;
  return new HttpError(413, message, 'too_large');
}

/**
 * Returns the error for an upload whose stored pieces are gone: storing one took minutes, or a caller removed the
 * file.
 */
function broken(): HttpError {
  return new HttpError(503, 'The upload was given up: upload the file again.', 'upload_lost', retryAfter(1));
}
