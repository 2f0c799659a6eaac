import { freeBytes } from '../../durable/free-bytes.ts';
import { putJobFile } from '../../files/put-job-file.ts';
import { bounds, fitsUtf8, type JobView, keepTree, parseJsonBytes, writeJson } from '../../protocol/index.ts';
import { longSuitsBase } from '../../queue/job-frame.ts';
import { maySee, payloadFileId, type SubmitJob, type ToldJob, type Viewer } from '../../queue/rpc.ts';
import type { Env } from '../env.ts';
import { HttpError, retryAfter } from '../errors.ts';
import { callFiles } from '../objects/calls.ts';

/**
 * Returns a job as the queue takes it: a long payload is in a file (files/object.ts), which is on disk by then, and the
 * queue knows only the file's name.
 */
export async function withPayloadFile(
  env: Env,
  queueId: string,
  given: SubmitJob & { id: string },
): Promise<SubmitJob> {
  if (fitsUtf8(given.payload, bounds.INLINE_BYTES)) return given;
  const { payload, ...job } = given;
  const bytes = new TextEncoder().encode(payload) as Uint8Array<ArrayBuffer>;
  const payload_file = payloadFileId(await sha256(bytes), longSuitsBase(job.job_type, bytes));
  await storeJobFile(env, queueId, { id: payload_file, job: job.id }, bytes);
  freeBytes(bytes);
  return { ...job, payload: '', payload_file };
}

/** Stores a job's file as `putJobFile` does. */
export function storeJobFile(
  env: Env,
  queueId: string,
  file: { id: string; job: string },
  bytes: Uint8Array,
): Promise<void> {
  return putJobFile((ask) => callFiles(env, queueId, ask), file, bytes);
}

/** Removes a file that no job has or will have. If this fails, the file expires by itself. */
export async function dropJobFile(env: Env, queueId: string, id: string): Promise<void> {
  await callFiles(env, queueId, (files) => files.remove(id)).catch(() => {});
}

/**
 * Returns the bytes of a file that a job named a moment ago.
 * @param gone makes the error to throw if the file is gone because the job was forgotten meanwhile
 */
export async function jobFile(
  env: Env,
  queueId: string,
  id: string,
  gone: () => HttpError,
): Promise<Response & { body: ReadableStream<Uint8Array> }> {
  const response = await callFiles(env, queueId, (files) => files.content(id));
  if (response.ok && response.body) return response as Response & { body: ReadableStream<Uint8Array> };
  await response.body?.cancel();
  throw response.status === 404 ? gone() : unreadable();
}

/** The stream of Cloudflare's runtime, where there is one: bytes piped through it do not pass through JavaScript. */
const Pipe =
  (globalThis as { IdentityTransformStream?: typeof TransformStream }).IdentityTransformStream ??
  TransformStream;

/** Returns the response that shows a job to its caller. A long result is passed on as bytes. */
export async function jobAnswer(env: Env, queueId: string, told: ToldJob, status = 200): Promise<Response> {
  const { result_file } = told;
  const job = toldJob(told);
  if (result_file === undefined) return jsonResponse(job, status);
  const { result: _, ...rest } = job;
  const { body } = await jobFile(env, queueId, result_file, () => unknownJob(job.id));
  const { readable, writable } = new Pipe<Uint8Array, Uint8Array>();
  void write(writable, `${JSON.stringify(rest).slice(0, -1)},"result":`, body, '}');
  return new Response(readable, { status, headers: { 'content-type': 'application/json' } });
}

/** Returns a job with its result as a value, for callers that look at the result. */
export async function wholeJob(env: Env, queueId: string, told: ToldJob): Promise<JobView> {
  const { result_file } = told;
  const job = toldJob(told);
  if (result_file === undefined) return job;
  const file = await jobFile(env, queueId, result_file, () => unknownJob(job.id));
  const bytes = new Uint8Array(await file.arrayBuffer());
  const result = parseJsonBytes(bytes);
  keepTree(result, bytes, RESULT_LEVELS);
  return { ...job, result };
}

/**
 * This many levels of a result keep their JSON: they reach the body of an engine's answer, and each output of a job in
 * RunPod's form.
 */
export const RESULT_LEVELS = 2;

/** Returns a job as callers know it. Its result keeps its JSON. */
export function toldJob({ result_file: _, result_text: text, ...job }: ToldJob): JobView {
  if (text !== undefined) keepTree(job.result, new TextEncoder().encode(text), RESULT_LEVELS);
  return job;
}

/** Returns a response of a value in JSON, with whatever JSON is kept of it. */
export function jsonResponse(value: unknown, status = 200): Response {
  return new Response(writeJson(value), { status, headers: { 'content-type': 'application/json' } });
}

/** Says why a job whose contents are erased is not tried again. */
export const ERASED =
  'The payload of this job was deleted with its response, so it cannot be tried again. Make the response anew.';

export function unknownJob(id: string): HttpError {
  return new HttpError(404, `No job has the id "${id}".`, 'job_not_found');
}

/** Writes `head`, `body` and `tail`. A reader that leaves, and a file that breaks off, end the body before its end. */
async function write(
  writable: WritableStream<Uint8Array>,
  head: string,
  body: ReadableStream<Uint8Array>,
  tail: string,
): Promise<void> {
  const encoder = new TextEncoder();
  const say = async (text: string) => {
    const writer = writable.getWriter();
    await writer.write(encoder.encode(text));
    writer.releaseLock();
  };
  try {
    await say(head);
    await body.pipeTo(writable, { preventClose: true });
    await say(tail);
    await writable.close();
  } catch (error) {
    await Promise.allSettled([body.cancel(error), writable.abort(error)]);
  }
}

function unreadable(): HttpError {
  const message =
    'The bucket of files cannot be read at the moment; the log of the queue says why. Try again in a moment.';
  return new HttpError(503, message, 'bucket_unreadable', retryAfter(5));
}

async function sha256(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

/**
 * Returns a job as a caller sees it: without its result where that caller may not read it.
 * @param reader the tenant whose contents the caller may read (`readerOf`)
 */
export function withheldFrom(reader: Viewer, job: ToldJob): ToldJob {
  if (maySee(reader, job.tenant)) return job;
  const hasResult = job.result !== null || job.result_file !== undefined;
  return { ...withoutResult(job), ...(hasResult && { withheld: true }) };
}

export function withoutResult({ result_file: _, result_text: __, ...job }: ToldJob): ToldJob {
  return { ...job, result: null };
}
