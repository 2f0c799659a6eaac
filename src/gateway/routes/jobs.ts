import {
  EngineRequest,
  isInferenceRoute,
  type JobSubmission,
  JobSubmission as JobSubmissionSchema,
  limits,
  parseValue,
} from '../../protocol/index.ts';
import { packJobs, type SubmitAnswer, type SubmitJob, unpackView } from '../../queue/rpc.ts';
import { tenantOf, viewerOf } from '../auth.ts';
import { parseBody, readBody } from '../body.ts';
import { errorType, HttpError, retryAfter } from '../errors.ts';
import { answerEarly } from '../inference/early-response.ts';
import { readFacts } from '../json-scan.ts';
import { callQueue, queueIdOf, submitJobs } from '../objects.ts';
import { type Gateway, needs } from './types.ts';

/** The longest `?wait=`, seconds. */
const LONGEST_WAIT_SECONDS = 300;

/** Jobs that are stored: submit, look, cancel. */
export function jobRoutes(app: Gateway): void {
  app.post('/api/jobs', needs('submit'), async (context) => {
    const request = context.req.raw;
    const queueId = queueIdOf(context.env, request);
    const key = request.headers.get('idempotency-key') ?? undefined;
    const tenant = tenantOf(context.get('token'));
    const submit = (jobs: SubmitJob[]) => {
      const sent = packJobs(jobs.map((job) => ({ ...job, tenant })));
      return submitJobs(context.env, queueId, sent);
    };
    const { bytes, release } = await readBody(request, context.env);
    try {
      const body = parseBody(bytes);
      if (Array.isArray(body)) {
        if (key)
          throw new HttpError(400, 'Idempotency-Key names one job; give each job of an array its own id.');
        return context.json(await submitMany(body, submit));
      }
      const job = readSubmission(body, key);
      if (job instanceof HttpError) throw job;
      const [answer] = await submit([job]);
      if (!answer?.ok) throw rejection(answer);
      return jobAnswer(answer.job, answer.created ? 201 : 200);
    } finally {
      release();
    }
  });

  app.get('/api/jobs/:id', needs('submit', 'read'), async (context) => {
    const id = context.req.param('id');
    const viewer = viewerOf(context.get('token'));
    const waitMs = waitOf(context.req.query('wait')) * 1000;
    const look = async () => {
      const job = await callQueue(context.env, queueIdOf(context.env, context.req.raw), (queue) =>
        waitMs > 0 ? queue.wait(id, waitMs, viewer) : queue.get(id, viewer),
      );
      if (!job) throw unknownJob(id);
      return jobAnswer(job);
    };
    if (waitMs === 0) return look();
    // Begun early, so that a caller who has left is noticed and its connection freed.
    const sleep = (ms: number) => new Promise<void>((done) => setTimeout(done, ms));
    return answerEarly(look(), Promise.resolve(), {}, { sleep, hangUp: () => {} });
  });

  app.get('/api/jobs/:id/ledger', needs('submit', 'read'), async (context) => {
    const id = context.req.param('id');
    const viewer = viewerOf(context.get('token'));
    const ledger = await callQueue(context.env, queueIdOf(context.env, context.req.raw), (queue) =>
      queue.ledger(id, viewer),
    );
    if (ledger) return context.json(ledger);
    const message = `No job has the id "${id}" (any more). A stored job keeps its ledger until it is removed, some time after it is settled; of requests that waited for their answer (/v1/…) those of the newest 1,000 are kept in memory.`;
    throw new HttpError(404, message, 'job_not_found');
  });

  app.delete('/api/jobs/:id', needs('submit'), async (context) => {
    const id = context.req.param('id');
    const viewer = viewerOf(context.get('token'));
    const job = await callQueue(context.env, queueIdOf(context.env, context.req.raw), (queue) =>
      queue.cancel(id, 'cancelled', viewer),
    );
    if (!job) throw unknownJob(id);
    return jobAnswer(job);
  });
}

/** A long result goes on as the bytes it came as: it is JSON already, and as a value it would fill the heap. */
function jobAnswer(job: object, status = 200): Response {
  const { result, ...rest } = job as { result?: unknown };
  if (!(result instanceof Uint8Array)) return Response.json(job, { status });
  const head = `${JSON.stringify(rest).slice(0, -1)},"result":`;
  const headers = { 'content-type': 'application/json' };
  return new Response(new Blob([head, result as Uint8Array<ArrayBuffer>, '}']), { status, headers });
}

/** Valid jobs go in one commit; each place of the answer holds what became of the job in that place. */
async function submitMany(bodies: unknown[], submit: (jobs: SubmitJob[]) => Promise<SubmitAnswer[]>) {
  if (bodies.length === 0 || bodies.length > limits.JOBS_PER_SUBMISSION) {
    throw new HttpError(
      400,
      `An array must hold 1 to ${limits.JOBS_PER_SUBMISSION} jobs; this one holds ${bodies.length}.`,
      'invalid_job',
    );
  }
  const read = bodies.map((body) => readSubmission(body));
  const jobs = read.filter((job): job is SubmitJob => !(job instanceof HttpError));
  const answers = (jobs.length > 0 ? await submit(jobs) : []).values();
  return read.map((job) => {
    if (job instanceof HttpError) return { error: errorOf(job) };
    const answer = answers.next().value;
    return answer?.ok ? { job: unpackView(answer.job) } : { error: errorOf(rejection(answer)) };
  });
}

/** @returns the error rather than throwing it, since in an array it concerns one job only */
function readSubmission(body: unknown, idempotencyKey?: string): SubmitJob | HttpError {
  const parsed = parseValue<JobSubmission>(JobSubmissionSchema, body);
  if (!parsed.ok) return new HttpError(400, parsed.message, 'invalid_job');
  const { payload, ...job } = parsed.value;
  const isEngineRequest = job.job_type === 'engine_request';
  const problem =
    (isEngineRequest ? problemOf(payload) : null) ??
    (job.stream ? streamProblemOf(job.job_type, payload) : null);
  if (problem !== null) return new HttpError(400, problem, 'invalid_job');
  const id = job.id ?? idempotencyKey ?? crypto.randomUUID();
  const checked = JobSubmissionSchema.shape.id.safeParse(id);
  if (!checked.success)
    return new HttpError(400, `Idempotency-Key: ${checked.error.issues[0]?.message}`, 'invalid_job');
  return {
    ...job,
    id,
    payload: JSON.stringify(payload),
    model: typeof payload.model === 'string' ? payload.model : undefined,
  };
}

/** What is wrong with the payload of an `engine_request`; null: nothing. */
function problemOf(payload: unknown): string | null {
  const request = parseValue(EngineRequest, payload);
  if (!request.ok) return `payload.${request.message}`;
  const { method, path } = request.value;
  if (isInferenceRoute(method, path)) return null;
  return `payload.path: ${method} ${path} is no inference route. Jobs reach those alone, such as POST /v1/completions; docs/protocol.md lists them.`;
}

/** Why the answer of a job cannot be read as a stream; null: it can. */
function streamProblemOf(jobType: string, { body }: Record<string, unknown>): string | null {
  if (jobType !== 'engine_request') return 'stream: only jobs of the type engine_request stream.';
  const wanted =
    'stream: the engine must be asked for a stream: payload.body needs to be JSON with "stream": true.';
  try {
    return typeof body === 'string' && readFacts(new TextEncoder().encode(body)).stream ? null : wanted;
  } catch {
    return wanted;
  }
}

const REJECTION_STATUS = { conflict: 409, no_config: 400, unknown_config: 404, queue_full: 429 } as const;

function rejection(answer: SubmitAnswer | undefined): HttpError {
  if (!answer || answer.ok) return new HttpError(500, 'The queue did not answer for this job.');
  const headers = answer.reason === 'queue_full' ? retryAfter(answer.retry_after_seconds) : {};
  return new HttpError(REJECTION_STATUS[answer.reason], answer.message, answer.reason, headers);
}

function errorOf(error: HttpError) {
  const seconds = error.headers['retry-after'];
  return {
    status: error.status,
    message: error.message,
    type: errorType(error.status),
    param: null,
    code: error.code,
    ...(seconds === undefined ? {} : { retry_after_seconds: Number(seconds) }),
  };
}

function unknownJob(id: string): HttpError {
  return new HttpError(404, `No job has the id "${id}".`, 'job_not_found');
}

function waitOf(text: string | undefined): number {
  if (text === undefined) return 0;
  const seconds = text.trim() === '' ? Number.NaN : Number(text);
  if (!(seconds >= 0 && seconds <= LONGEST_WAIT_SECONDS)) {
    throw new HttpError(400, `wait: expected seconds from 0 to ${LONGEST_WAIT_SECONDS}.`, 'invalid_wait');
  }
  return seconds;
}
