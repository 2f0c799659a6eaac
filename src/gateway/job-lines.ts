import { limits } from '../protocol/index.ts';
import type { SubmitAnswer, SubmitJob } from '../queue/rpc.ts';
import { parseBody } from './body.ts';
import { HttpError } from './errors.ts';
import type { PriorityBound } from './priority.ts';
import { errorOf, readSubmission, submitAll } from './submissions.ts';

/** Jobs as lines of JSON, and an answer of as many lines. */

const TYPES = new Set([
  'application/x-ndjson',
  'application/ndjson',
  'application/jsonl',
  'application/x-jsonlines',
]);
const LINE_FEED = 0x0a;

type Submit = (jobs: SubmitJob[]) => Promise<SubmitAnswer[]>;

/** One that is not blank, numbered from 1 as an editor shows it. */
interface Line {
  number: number;
  job: SubmitJob | HttpError;
}

export function isLines(request: Request): boolean {
  const type = request.headers.get('content-type') ?? '';
  return TYPES.has(type.split(';', 1)[0]!.trim().toLowerCase());
}

/**
 * Submits the jobs of a body, a commit for every thousand. A line that is none holds up no other; where the queue
 * cannot be reached half-way, the lines that are left say so, and can be sent again: those with an id are not doubled.
 * @param bound what their submitter may ask for
 * @returns a line for each, in order: `{"line": 3, "job": …}` or `{"line": 4, "error": …}`
 * @throws HttpError 400 for no line at all and for too many
 */
export async function submitLines(
  bytes: Uint8Array,
  bound: PriorityBound,
  submit: Submit,
): Promise<Response> {
  const lines = readLines(bytes, bound);
  if (lines.length === 0 || lines.length > limits.LINES_PER_SUBMISSION) {
    const message = `The body must hold 1 to ${limits.LINES_PER_SUBMISSION} jobs, one a line; this one holds ${lines.length}.`;
    throw new HttpError(400, message, 'invalid_job');
  }
  const answer: string[] = [];
  let failure: HttpError | null = null;
  for (let at = 0; at < lines.length; at += limits.JOBS_PER_SUBMISSION) {
    const some = lines.slice(at, at + limits.JOBS_PER_SUBMISSION);
    let became: object[] = [];
    try {
      if (failure === null)
        became = await submitAll(
          some.map(({ job }) => job),
          submit,
        );
    } catch (error) {
      if (at === 0 || !(error instanceof HttpError)) throw error;
      failure = error;
    }
    for (const [index, { number }] of some.entries()) {
      const told = failure === null ? became[index] : { error: errorOf(failure) };
      answer.push(`${JSON.stringify({ line: number, ...told })}\n`);
    }
  }
  return new Response(answer.join(''), { headers: { 'content-type': 'application/x-ndjson' } });
}

function readLines(bytes: Uint8Array, bound: PriorityBound): Line[] {
  const lines: Line[] = [];
  for (let from = 0, number = 1; from < bytes.length; number += 1) {
    const end = bytes.indexOf(LINE_FEED, from);
    const to = end < 0 ? bytes.length : end;
    const line = bytes.subarray(from, to);
    from = to + 1;
    if (line.every(isBlank)) continue;
    // One more than there may be is enough to reject them.
    if (lines.length > limits.LINES_PER_SUBMISSION) break;
    lines.push({ number, job: readLine(line, bound) });
  }
  return lines;
}

function readLine(line: Uint8Array, bound: PriorityBound): SubmitJob | HttpError {
  try {
    return readSubmission(parseBody(line), bound);
  } catch (error) {
    if (error instanceof HttpError)
      return new HttpError(400, error.message.replace('The body', 'The line'), error.code);
    throw error;
  }
}

function isBlank(byte: number): boolean {
  return byte === 0x20 || byte === 0x09 || byte === 0x0d;
}
