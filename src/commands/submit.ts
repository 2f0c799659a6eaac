import { readFile } from 'node:fs/promises';
import { text } from 'node:stream/consumers';
import { EXIT, UserError } from '../process/index.ts';
import type { JobView } from '../protocol/index.ts';
import { type LedgerStep, traceText } from './trace.ts';

export interface SubmitOptions {
  url: string;
  token?: string;
  model?: string;
  jobType: string;
  configId?: string;
  file?: string;
  /** Seconds to wait for the result; 0 prints the job and returns. */
  wait: number;
  /** Prints what happened to the job, step by step, on stderr. */
  trace?: boolean;
}

/** One request waits at most this long, s; fetch gives up at 300. */
const WAIT_PIECE_SECONDS = 60;

/**
 * `worker-vllm submit`: stores one job and prints its result as JSON.
 * @returns the exit code: not 0 when the job failed, or was not done in time
 * @throws UserError when the queue cannot be reached or refuses the job
 */
export async function runSubmit(prompt: string | undefined, options: SubmitOptions): Promise<number> {
  const payload = await payloadOf(prompt, options);
  const body = { job_type: options.jobType, config_id: options.configId, payload };
  let job = await ask<JobView>(options, 'POST', '/api/jobs', body);
  const deadline = performance.now() + options.wait * 1000;
  while (job.state === 'pending' || job.state === 'leased') {
    const left = (deadline - performance.now()) / 1000;
    if (left <= 0) break;
    const wait = Math.min(WAIT_PIECE_SECONDS, Math.ceil(left));
    job = await ask<JobView>(options, 'GET', `/api/jobs/${encodeURIComponent(job.id)}?wait=${wait}`);
  }
  const code = report(job, options);
  if (options.trace) process.stderr.write(await trace(job.id, options));
  return code;
}

async function trace(id: string, options: SubmitOptions): Promise<string> {
  const path = `/api/jobs/${encodeURIComponent(id)}/ledger`;
  const { job_id, steps } = await ask<{ job_id: string; steps: LedgerStep[] }>(options, 'GET', path);
  return traceText(job_id, steps);
}

function report(job: JobView, options: SubmitOptions): number {
  if (job.state === 'succeeded') {
    process.stdout.write(`${JSON.stringify(job.result, null, 2)}\n`);
    return EXIT.ok;
  }
  const look = `${options.url}/api/jobs/${job.id}`;
  if (job.state === 'pending' || job.state === 'leased') {
    process.stdout.write(`${JSON.stringify(job, null, 2)}\n`);
    if (options.wait === 0) return EXIT.ok;
    const why = job.state === 'pending' ? 'no worker has taken it' : `worker ${job.worker_id} is at it`;
    process.stderr.write(`Job ${job.id} is not done after ${options.wait} s (${why}). Look again: ${look}\n`);
    return EXIT.unexpected;
  }
  process.stderr.write(`Job ${job.id} ${job.state}: ${job.error?.message ?? 'no reason was given'}\n`);
  for (const error of job.attempt_errors) {
    process.stderr.write(
      `  attempt ${error.attempt} on ${error.worker_id ?? 'no worker'}: ${error.message}\n`,
    );
  }
  return EXIT.unexpected;
}

/** From the prompt, else the file, else stdin; `--model` fills in what they leave out. */
async function payloadOf(
  prompt: string | undefined,
  options: SubmitOptions,
): Promise<Record<string, unknown>> {
  const model = options.model ? { model: options.model } : {};
  if (prompt !== undefined) return { messages: [{ role: 'user', content: prompt }], ...model };
  if (!options.file && process.stdin.isTTY) {
    throw new UserError('What is to be asked? Give a prompt, or the payload as JSON by --file or on stdin.');
  }
  const source = options.file ?? 'stdin';
  let parsed: unknown;
  try {
    parsed = JSON.parse(options.file ? await readFile(options.file, 'utf8') : await text(process.stdin));
  } catch (error) {
    throw new UserError(`The payload from ${source} cannot be read: ${(error as Error).message}`);
  }
  if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed)) {
    throw new UserError(`The payload from ${source} must be a JSON object such as {"messages": [...]}.`);
  }
  return { ...model, ...parsed };
}

async function ask<T>(options: SubmitOptions, method: string, path: string, body?: unknown): Promise<T> {
  const headers: Record<string, string> = { 'content-type': 'application/json' };
  if (options.token) headers.authorization = `Bearer ${options.token}`;
  let response: Response;
  try {
    response = await fetch(options.url.replace(/\/+$/, '') + path, {
      method,
      headers,
      body: JSON.stringify(body),
    });
  } catch (error) {
    const cause = (error as { cause?: NodeJS.ErrnoException }).cause;
    const why = cause?.code ?? cause?.message ?? (error as Error).message;
    throw new UserError(
      `No queue answers at ${options.url} (${why}). Start one with "npm start", or give its --url.`,
    );
  }
  const answer = await response.text();
  if (response.ok) return JSON.parse(answer) as T;
  throw new UserError(`The queue refused (${response.status}): ${messageIn(answer)}`, EXIT.unexpected);
}

function messageIn(answer: string): string {
  try {
    return JSON.parse(answer).error.message as string;
  } catch {
    return answer.slice(0, 500) || 'without a word';
  }
}
