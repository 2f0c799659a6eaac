import { type SplitLine, splitLines } from '../batches/input-lines.ts';
import { bounds, writeJsonLine } from '../protocol/index.ts';
import type { SubmitAnswer } from '../queue/rpc.ts';
import { HttpError } from './errors.ts';
import type { ReadJob } from './objects/read-job.ts';
import type { Permissions } from './permissions.ts';
import { errorOf, parseJobs, readSubmission, submitAll } from './submissions.ts';

/** The content types of jobs as lines of JSON, whose answer has as many lines. */

const TYPES = new Set([
  'application/x-ndjson',
  'application/ndjson',
  'application/jsonl',
  'application/x-jsonlines',
]);

type Submit = (jobs: ReadJob[]) => Promise<SubmitAnswer[]>;

export function isLines(request: Request): boolean {
  const type = request.headers.get('content-type') ?? '';
  return TYPES.has(type.split(';', 1)[0]!.trim().toLowerCase());
}

/** The most lines in one turn, and the most bytes: a turn ends where either is reached. */
const MOST_IN_TURN = { lines: bounds.JOBS_PER_SUBMISSION, bytes: 256 * 1024 };

/**
 * Submits the jobs of a body, some in each commit, with other callers' turns in between. A line that is not a job
 * holds up no other; where the queue cannot be reached half-way, the lines that are left say so, and can be sent
 * again: those with an id are not doubled.
 * @param permissions what the submitter may ask for
 * @param turn waits until so many bytes may be worked on, and returns a function that ends the turn
 * @returns a line for each, in order: `{"line": 3, "job": …}` or `{"line": 4, "error": …}`
 * @throws HttpError 400 for no line at all and for too many
 */
export async function submitLines(
  bytes: Uint8Array,
  permissions: Permissions,
  submit: Submit,
  turn: (bytes: number) => Promise<() => void>,
): Promise<Response> {
  const start = { bytes: 0, lines: 0 };
  // The reader stops one line past the limit, which is enough to reject the body.
  const { lines } = splitLines(bytes, start, true, bounds.LINES_PER_SUBMISSION);
  if (lines.length === 0 || lines.length > bounds.LINES_PER_SUBMISSION) {
    const message = `The body must hold 1 to ${bounds.LINES_PER_SUBMISSION} jobs, one a line; this one holds ${lines.length}.`;
    throw new HttpError(400, message, 'invalid_job');
  }
  const answer: string[] = [];
  let failure: HttpError | null = null;
  for (const some of partsOf(lines)) {
    const endTurn = await turn(some.reduce((sum, line) => sum + line.bytes.byteLength, 0));
    let became: object[] = [];
    try {
      const jobs = some.map((line) => readLine(line.bytes, permissions));
      if (failure === null) became = await submitAll(jobs, submit);
    } catch (error) {
      if (answer.length === 0 || !(error instanceof HttpError)) throw error;
      failure = error;
    } finally {
      endTurn();
    }
    for (const [index, { number }] of some.entries()) {
      const told = failure === null ? became[index] : { error: errorOf(failure) };
      answer.push(`${writeJsonLine({ line: number, ...told })}\n`);
    }
  }
  return new Response(answer.join(''), { headers: { 'content-type': 'application/x-ndjson' } });
}

function* partsOf(lines: readonly SplitLine[]): Iterable<SplitLine[]> {
  let part: SplitLine[] = [];
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

function readLine(line: Uint8Array, permissions: Permissions): ReadJob | HttpError {
  try {
    return readSubmission(parseJobs(line), permissions);
  } catch (error) {
    if (error instanceof HttpError)
      return new HttpError(400, error.message.replace('The body', 'The line'), error.code);
    throw error;
  }
}
