import { limits } from '../protocol/index.ts';
import type { SubmitAnswer, SubmitJob } from '../queue/rpc.ts';
import { parseBody } from './body.ts';
import type { Bounds } from './bounds.ts';
import { HttpError } from './errors.ts';
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
  bytes: Uint8Array;
}

export function isLines(request: Request): boolean {
  const type = request.headers.get('content-type') ?? '';
  return TYPES.has(type.split(';', 1)[0]!.trim().toLowerCase());
}

/** Lines of one turn, and their bytes: whichever is reached first. */
const MOST_IN_TURN = { lines: limits.JOBS_PER_SUBMISSION, bytes: 256 * 1024 };

/**
 * Submits the jobs of a body, some in each commit, with other callers' turns in between. A line that is none holds up
 * no other; where the queue cannot be reached half-way, the lines that are left say so, and can be sent again: those
 * with an id are not doubled.
 * @param bound what their submitter may ask for
 * @param turn waits until so many bytes may be worked on; what it returns ends that
 * @returns a line for each, in order: `{"line": 3, "job": …}` or `{"line": 4, "error": …}`
 * @throws HttpError 400 for no line at all and for too many
 */
export async function submitLines(
  bytes: Uint8Array,
  bound: Bounds,
  submit: Submit,
  turn: (bytes: number) => Promise<() => void>,
): Promise<Response> {
  const lines = linesOf(bytes);
  if (lines.length === 0 || lines.length > limits.LINES_PER_SUBMISSION) {
    const message = `The body must hold 1 to ${limits.LINES_PER_SUBMISSION} jobs, one a line; this one holds ${lines.length}.`;
    throw new HttpError(400, message, 'invalid_job');
  }
  const answer: string[] = [];
  let failure: HttpError | null = null;
  for (const some of partsOf(lines)) {
    const endTurn = await turn(some.reduce((sum, line) => sum + line.bytes.byteLength, 0));
    let became: object[] = [];
    try {
      const jobs = some.map((line) => readLine(line.bytes, bound));
      if (failure === null) became = await submitAll(jobs, submit);
    } catch (error) {
      if (answer.length === 0 || !(error instanceof HttpError)) throw error;
      failure = error;
    } finally {
      endTurn();
    }
    for (const [index, { number }] of some.entries()) {
      const told = failure === null ? became[index] : { error: errorOf(failure) };
      answer.push(`${JSON.stringify({ line: number, ...told })}\n`);
    }
  }
  return new Response(answer.join(''), { headers: { 'content-type': 'application/x-ndjson' } });
}

function linesOf(bytes: Uint8Array): Line[] {
  const lines: Line[] = [];
  for (let from = 0, number = 1; from < bytes.length; number += 1) {
    const end = bytes.indexOf(LINE_FEED, from);
    const to = end < 0 ? bytes.length : end;
    const line = bytes.subarray(from, to);
    from = to + 1;
    if (line.every(isBlank)) continue;
    // One line too many is enough to reject the body.
    if (lines.length > limits.LINES_PER_SUBMISSION) break;
    lines.push({ number, bytes: line });
  }
  return lines;
}

function* partsOf(lines: readonly Line[]): Iterable<Line[]> {
  let part: Line[] = [];
  let size = 0;
  for (const line of lines) {
    size += line.bytes.byteLength;
    if (part.length === MOST_IN_TURN.lines || (part.length > 0 && size > MOST_IN_TURN.bytes)) {
      yield part;
      part = [];
      size = line.bytes.byteLength;
    }
    part.push(line);
  }
  if (part.length > 0) yield part;
}

function readLine(line: Uint8Array, bound: Bounds): SubmitJob | HttpError {
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
