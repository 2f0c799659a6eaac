import { createHash } from 'node:crypto';
import { createWriteStream, openAsBlob } from 'node:fs';
import { readFile, rename, rm, writeFile } from 'node:fs/promises';
import { basename } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { APIConnectionError, APIError, APIUserAbortError, OpenAI } from 'openai';
import { EXIT, endSignals, UserError } from '../process/index.ts';
import { ANY_ENDPOINT, urlOfLine, type Waiting } from '../protocol/index.ts';
import { plural } from '../show/format.ts';
import { type QueueTarget, refusal, UnreachableQueue, unreachable } from './ask-queue.ts';
import { jsonLines, unreadable } from './json-files.ts';
import { Progress } from './progress.ts';
import type { Counts } from './results-file.ts';
import { print, printNote } from './terminal.ts';
import { WaitingLine } from './trace.ts';

interface BatchRunOptions extends QueueTarget {
  /** The file for the answers; left out: a file beside the input. */
  output?: string;
  /** The batch's completion window, such as "24h". */
  window: string;
}

const POLL_MS = 1000;
/** The time limit of an upload, ms, since files may have gigabytes. */
const LONGEST_UPLOAD_MS = 24 * 3600 * 1000;
const OVER = ['completed', 'failed', 'cancelled', 'expired'];

/** The note beside the input while its batch runs. */
interface Running {
  batch_id: string;
  /** The input's hash: a different input is a different batch. */
  sha256: string;
}

/**
 * Runs `worker-vllm batch run FILE.jsonl`: uploads the file, runs it as a batch and writes its answers when it has
 * ended. The same command continues a batch that it left running.
 * @returns the exit code, which is not 0 when a line failed, the batch did not complete, or the command was stopped
 * @throws UserError when the file cannot be used, or the queue refuses
 */
export async function runBatch(file: string, options: BatchRunOptions): Promise<number> {
  const ask = openAIAt(options);
  const signals = endSignals();
  const isStopped = new AbortController();
  const stopped = signals.first.then(() => {
    isStopped.abort();
    return null;
  });
  try {
    const begun = await begin(ask, file, options, isStopped.signal);
    if (begun === null) {
      printNote('Stopped before the file was uploaded: nothing runs.');
      return EXIT.forced;
    }
    const progress = new Progress(begun.lines, countsOf(begun.batch), process.stderr);
    progress.say(`Batch ${begun.batch.id} runs ${plural(begun.lines, 'line')}.`);
    const ended = await Promise.race([stopped, watch(ask, begun.batch, progress)]);
    progress.end();
    if (ended !== null) return await finish(ask, ended, file, options);
    printNote(
      `The batch goes on without this command. To see it again: worker-vllm batch run ${file}\nTo end it: worker-vllm batch cancel ${begun.batch.id}`,
    );
    return EXIT.forced;
  } finally {
    signals.release();
  }
}

/** Uploads the input and begins the batch. @returns the batch, or null if the command was stopped during the upload */
async function begin(
  ask: AskOpenAI,
  file: string,
  { window }: BatchRunOptions,
  stopped: AbortSignal,
): Promise<{ batch: OpenAI.Batch; lines: number } | null> {
  const { sha256, lines, endpoint } = await survey(file);
  const running = await readRunning(file);
  if (running?.sha256 === sha256) {
    return { batch: await ask((client) => client.batches.retrieve(running.batch_id)), lines };
  }
  printNote(`Uploading ${file} ...`);
  const fileId = await upload(ask, file, stopped).catch((error: unknown) => {
    if (stopped.aborted) return null;
    throw error;
  });
  if (fileId === null) return null;
  const wanted = { input_file_id: fileId, endpoint, completion_window: window } as OpenAI.BatchCreateParams;
  const batch = await ask((client) => client.batches.create(wanted, { idempotencyKey: fileId }));
  const noted: Running = { batch_id: batch.id, sha256 };
  await writeFile(runningPath(file), `${JSON.stringify(noted)}\n`);
  return { batch, lines };
}

/** Waits for the end of a batch, even while the queue is away for a moment. @returns the ended batch */
async function watch(ask: AskOpenAI, first: OpenAI.Batch, progress: Progress): Promise<OpenAI.Batch> {
  let batch = first;
  const waiting = new WaitingLine((text) => progress.say(text));
  while (!OVER.includes(batch.status)) {
    const isWaiting = waiting.show((batch as { waiting?: Waiting }).waiting);
    progress.show(countsOf(batch), tokensOf(batch), isWaiting);
    await sleep(POLL_MS);
    const { id } = batch;
    batch = await ask((client) => client.batches.retrieve(id)).catch((error: unknown) => {
      if (error instanceof UnreachableQueue) return batch;
      throw error;
    });
  }
  progress.show(countsOf(batch), tokensOf(batch));
  return batch;
}

function countsOf({ request_counts }: OpenAI.Batch): Counts {
  return { succeeded: request_counts?.completed ?? 0, failed: request_counts?.failed ?? 0 };
}

function tokensOf({ usage }: OpenAI.Batch): string {
  return `${usage?.input_tokens ?? 0} tokens in, ${usage?.output_tokens ?? 0} out`;
}

/** Uploads a file. @returns its id */
async function upload(ask: AskOpenAI, path: string, signal: AbortSignal): Promise<string> {
  const file = new File([await openAsBlob(path)], basename(path));
  const options = { signal, timeout: LONGEST_UPLOAD_MS };
  return (await ask((client) => client.files.create({ file, purpose: 'batch' }, options))).id;
}

/** Writes a file's content beside `path` first, so that a file at `path` is always whole. */
async function download(ask: AskOpenAI, fileId: string, path: string): Promise<void> {
  const { body } = await ask((client) => client.files.content(fileId));
  const partial = `${path}.part`;
  await pipeline(Readable.fromWeb(body as never), createWriteStream(partial)).catch((error: Error) => {
    throw new UserError(`${path} cannot be written: ${error.message}`, EXIT.unexpected);
  });
  await rename(partial, path);
}

async function finish(
  ask: AskOpenAI,
  batch: OpenAI.Batch,
  file: string,
  options: BatchRunOptions,
): Promise<number> {
  if (batch.status === 'failed') {
    await rm(runningPath(file), { force: true });
    const faults = (batch.errors?.data ?? []).map(({ line, message }) =>
      line == null ? message : `line ${line}: ${message}`,
    );
    throw new UserError(`${faults.join('\n')}\n${file} is not in order: nothing was run.`, EXIT.unexpected);
  }
  const output = options.output ?? file.replace(/(\.jsonl)?$/i, '.output.jsonl');
  const errors = output.replace(/(\.jsonl)?$/i, '.errors.jsonl');
  if (batch.output_file_id) await download(ask, batch.output_file_id, output);
  if (batch.error_file_id) await download(ask, batch.error_file_id, errors);
  await rm(runningPath(file), { force: true });
  const { succeeded, failed } = countsOf(batch);
  printNote(
    `Batch ${batch.status}: ${succeeded} of ${batch.request_counts?.total ?? 0} lines succeeded, ${failed} failed; ${tokensOf(batch)}.`,
  );
  if (batch.output_file_id) printNote(`Answers: ${output}`);
  if (batch.error_file_id) printNote(`Errors: ${errors}`);
  return batch.status === 'completed' && failed === 0 ? EXIT.ok : EXIT.unexpected;
}

/** Returns the facts about the input that are needed before its upload. The queue checks its lines. */
async function survey(file: string): Promise<{ sha256: string; lines: number; endpoint: string }> {
  const hash = createHash('sha256');
  let lines = 0;
  const urls = new Set<string>();
  try {
    for await (const { text } of jsonLines(file, (piece) => hash.update(piece))) {
      lines += 1;
      const url = urlOfLine(text);
      if (url !== null) urls.add(url);
      else if (lines === 1) throw notOfABatch(file);
    }
  } catch (error) {
    if (error instanceof UserError) throw error;
    throw unreadable(file, error, LINE_HINT);
  }
  const [url, ...others] = urls;
  if (url === undefined) throw new UserError(`${file} has no lines.`);
  return { sha256: hash.digest('hex'), lines, endpoint: others.length === 0 ? url : ANY_ENDPOINT };
}

/** The hint about the form of a line. */
const LINE_HINT =
  'Each line is a request such as {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": {...}}.';

function notOfABatch(file: string): UserError {
  return new UserError(`${file}: the first line is no request of a batch. ${LINE_HINT}`);
}

function runningPath(file: string): string {
  return `${file}.batch`;
}

async function readRunning(file: string): Promise<Running | null> {
  const text = await readFile(runningPath(file), 'utf8').catch(() => null);
  if (text === null) return null;
  try {
    return JSON.parse(text) as Running;
  } catch {
    throw new UserError(
      `${runningPath(file)} is damaged. Remove it to start a new batch; "worker-vllm batch list" shows the old one.`,
    );
  }
}

const LISTED = 20;
const NONE: OpenAI.BatchRequestCounts = { total: 0, completed: 0, failed: 0 };

/** Runs `worker-vllm batch list`: prints the newest batches, one on each line. */
export async function listBatches(target: QueueTarget): Promise<number> {
  const { data: batches } = await openAIAt(target)((client) => client.batches.list({ limit: LISTED }));
  if (batches.length === 0) printNote('There are no batches.');
  for (const batch of batches) print(lineOf(batch));
  return EXIT.ok;
}

/** Runs `worker-vllm batch status ID`: prints one batch as JSON. */
export async function showBatch(id: string, target: QueueTarget): Promise<number> {
  const batch = await openAIAt(target)((client) => client.batches.retrieve(id));
  print(JSON.stringify(batch, null, 2));
  return EXIT.ok;
}

/** Runs `worker-vllm batch cancel ID`. */
export async function cancelBatch(id: string, target: QueueTarget): Promise<number> {
  const { status } = await openAIAt(target)((client) => client.batches.cancel(id));
  printNote(`Batch ${id} is ${status.replace('_', ' ')}.`);
  return EXIT.ok;
}

function lineOf({ id, status, endpoint, created_at, request_counts }: OpenAI.Batch): string {
  const { total, completed, failed } = request_counts ?? NONE;
  const at = new Date(created_at * 1000).toISOString().slice(0, 16).replace('T', ' ');
  const done = `${completed}/${total}${failed > 0 ? ` (${failed} failed)` : ''}`;
  return `${id}  ${status.padEnd(11)}  ${done.padEnd(14)}  ${at}Z  ${endpoint}`;
}

/**
 * Calls OpenAI's API at a queue.
 * @throws UnreachableQueue if the same call may succeed later; UserError if the queue refuses it; APIUserAbortError if
 * the call's signal ended it
 */
type AskOpenAI = <T>(call: (client: OpenAI) => Promise<T>) => Promise<T>;

/** Returns calls of OpenAI's own client to a queue. The environment's variables for OpenAI do not reach the queue. */
function openAIAt({ url, token, queueId }: QueueTarget): AskOpenAI {
  // The client sends these headers with every request, and no option prevents that.
  delete process.env.OPENAI_CUSTOM_HEADERS;
  const client = new OpenAI({
    baseURL: `${url.replace(/\/+$/, '')}/v1`,
    apiKey: token ?? 'none',
    adminAPIKey: null,
    organization: null,
    project: null,
    defaultHeaders: { ...(!token && { authorization: null }), ...(queueId && { 'x-queue-id': queueId }) },
  });
  return async (call) => {
    try {
      return await call(client);
    } catch (error) {
      if (error instanceof APIUserAbortError || !(error instanceof APIError)) throw error;
      if (error instanceof APIConnectionError) throw unreachable(url, error);
      const { message } = Object(error.error) as { message?: string };
      throw refusal(error.status, message);
    }
  };
}
