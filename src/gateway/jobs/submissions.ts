import { type SplitLine, splitLines } from '../../batches/input-lines.ts';
import {
  bounds,
  EngineRequest,
  fieldsOf,
  isInferenceRoute,
  isRequestHeader,
  JobSubmission,
  JsonFault,
  matchesPattern,
  openAIType,
  parseValue,
  runpodStreams,
  schemaWords,
  writeJson,
  writeJsonLine,
} from '../../protocol/index.ts';
import { bytesOf, type HeardAnswer, type SubmitAnswer, type SubmitJob } from '../../queue/rpc.ts';
import { type JobFacts, jobFacts } from '../../request-facts/job-facts.ts';
import { RequestFault } from '../../request-facts/json.ts';
import {
  adapterProblem,
  enginePriorityProblem,
  jobRouteProblem,
  modelProblem,
  type Permissions,
  priorityProblem,
} from '../auth/permissions.ts';
import { parseKeeping } from '../bodies/body.ts';
import { HttpError, retryAfter } from '../errors.ts';
import { toldJob } from './job-files.ts';

/**
 * A job that a caller has submitted, with the facts of its payload, so that whatever submits it need not read a short
 * payload again.
 */
export type ReadJob = SubmitJob & {
  facts?: JobFacts;
  /** Returns why the submitter may not submit the job with these facts, or null: a filter may have changed the job. */
  judge?: (facts: JobFacts) => HttpError | null;
};

/** Facts are kept of payloads up to this many characters: the facts hold the payload's bytes. */
const KEPT_FACTS = 16 * 1024;

/** Parses a job, or an array of jobs, and keeps their payloads as they were written. @throws HttpError 400 */
export function parseJobs(bytes: Uint8Array): unknown {
  return parseKeeping(bytes, ['payload']);
}

/**
 * Reads one submission.
 * @param permissions what its submitter may ask for
 * @returns the error rather than throwing it, since in an array it concerns one job only
 */
export function readSubmission(
  body: unknown,
  permissions: Permissions,
  idempotencyKey?: string,
): ReadJob | HttpError {
  const parsed = parseValue(JobSubmission, body);
  if (!parsed.ok) return new HttpError(400, parsed.message, 'invalid_job');
  const { payload, priority = permissions.usual, ...job } = parsed.value;
  const shape = job.job_type === 'engine_request' ? engineRequestProblem(payload) : null;
  if (shape !== null) return new HttpError(400, shape, 'invalid_job');
  const text = writeJson(fieldsOf(body).payload);
  const facts = readFacts(job.job_type, text);
  if (facts instanceof HttpError) return facts;
  const denied = priorityProblem(priority, permissions) ?? factsProblem(facts, permissions);
  if (denied) return denied;
  const problem = job.stream ? streamProblemOf(job.job_type, payload, facts) : null;
  if (problem !== null) return new HttpError(400, problem, 'invalid_job');
  if (job.id === undefined && idempotencyKey !== undefined) {
    const checked = JobSubmission.shape.id.safeParse(idempotencyKey, { error: schemaWords });
    if (!checked.success)
      return new HttpError(400, `Idempotency-Key: ${checked.error.issues[0]?.message}`, 'invalid_job');
  }
  return {
    ...job,
    priority,
    id: job.id ?? idempotencyKey,
    payload: text,
    model: facts.model ?? undefined,
    ...(!mayNamePool(job.config_id, permissions) && { model_only: true }),
    ...(text.length <= KEPT_FACTS && { facts }),
    judge: (facts) => factsProblem(facts, permissions),
  };
}

/**
 * Reads the facts of the body that the engine will be sent.
 * @param payload JSON of an object
 * @returns the facts, or the error where no engine is sent the body
 */
export function readFacts(jobType: string, payload: string): JobFacts | HttpError {
  const bytes = bytesOf(payload);
  try {
    return jobFacts(jobType, bytes);
  } catch (error) {
    if (error instanceof RequestFault || error instanceof JsonFault)
      return new HttpError(400, error.message, 'invalid_job');
    throw error;
  }
}

/**
 * Returns why a job may not go on from a stored response, or null: the gateway gives a response its history when the
 * request comes, and a job has its whole input in its payload.
 * @param previousId `previous_response_id` of the body
 */
export function previousResponseProblem(path: unknown, previousId: unknown): string | null {
  if (typeof path !== 'string' || !path.startsWith('/v1/responses') || (previousId ?? null) === null)
    return null;
  return 'a stored response is gone on from by requests to POST /v1/responses alone, with "background": true too, not by jobs.';
}

/** Returns the error that forbids the submitter to ask an engine for a job's body, or null. */
export function factsProblem({ request, body, model }: JobFacts, permissions: Permissions): HttpError | null {
  const kept = previousResponseProblem(request.path, body.previousId);
  if (kept !== null) return new HttpError(400, `payload.path: ${kept}`, 'invalid_job');
  return (
    [...request.priorities, body.priority]
      .map((asked) => enginePriorityProblem(asked, permissions))
      .find(Boolean) ??
    modelProblem([model], permissions) ??
    adapterProblem(body, permissions) ??
    jobRouteProblem(request.path, permissions)
  );
}

/**
 * Returns whether the token may name the pool, whatever its workers serve: the pool's name is one of those that the
 * token is for.
 */
function mayNamePool(pool: string | undefined, { models }: Permissions): boolean {
  return pool === undefined || models === null || models.some((pattern) => matchesPattern(pattern, pool));
}

/** Returns what is wrong with the payload of an `engine_request` apart from its body, or null. */
function engineRequestProblem(payload: unknown): string | null {
  const request = parseValue(EngineRequest, payload);
  if (!request.ok) return `payload.${request.message}`;
  const { method, path, headers = {} } = request.value;
  const strange = Object.keys(headers).find((name) => !isRequestHeader(name));
  if (strange !== undefined) {
    return `payload.headers: ${strange} does not reach engines; docs/protocol.md lists those that do.`;
  }
  if (isInferenceRoute(method, path)) return null;
  return `payload.path: ${method} ${path} is no inference route. Jobs reach those alone, such as POST /v1/completions; docs/http.md lists them.`;
}

/** Returns why the answer of a job cannot be read as a stream, or null where it can. */
function streamProblemOf(
  jobType: string,
  { input }: Record<string, unknown>,
  { body }: JobFacts,
): string | null {
  if (jobType === 'runpod')
    return runpodStreams(Object(input)) ? null : 'stream: the input asks for no stream.';
  if (jobType !== 'engine_request') return 'stream: only jobs of the types engine_request and runpod stream.';
  return body.kind === 'json' && body.stream
    ? null
    : 'stream: the engine must be asked for a stream: payload.body needs to be JSON with "stream": true.';
}

/**
 * Submits the jobs that could be read, in one commit.
 * @param read a job or the error for it, in order
 * @returns what became of each, in order
 */
export async function submitAll(
  read: readonly (ReadJob | HttpError)[],
  submit: (jobs: ReadJob[]) => Promise<SubmitAnswer[]>,
): Promise<({ job: object } | { error: object })[]> {
  const jobs = read.filter((job): job is ReadJob => !(job instanceof HttpError));
  const answers = (jobs.length > 0 ? await submit(jobs) : []).values();
  return read.map((job) => {
    if (job instanceof HttpError) return { error: errorOf(job) };
    const answer = answers.next().value;
    if (!answer?.ok) return { error: errorOf(rejection(answer)) };
    return { job: toldJob(answer.job) };
  });
}

const REJECTION_STATUS = {
  conflict: 409,
  no_pool: 400,
  unknown_pool: 404,
  queue_full: 429,
  invalid_webhook: 400,
} as const;

/** Returns the error for a submission that the queue did not take. */
export function rejection(answer: HeardAnswer | undefined): HttpError {
  if (!answer || answer.ok) return new HttpError(500, 'The queue did not answer for this job.');
  if (answer.reason === 'filtered') return new HttpError(answer.status, answer.message, answer.code);
  const headers = answer.reason === 'queue_full' ? retryAfter(answer.retry_after_seconds) : {};
  return new HttpError(REJECTION_STATUS[answer.reason], answer.message, answer.reason, headers);
}

/** Returns an error as the entry of one job among several. */
export function errorOf(error: HttpError) {
  const seconds = error.headers['retry-after'];
  return {
    status: error.status,
    message: error.message,
    type: openAIType(error.status),
    param: null,
    code: error.code,
    ...(seconds === undefined ? {} : { retry_after_seconds: Number(seconds) }),
  };
}

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
