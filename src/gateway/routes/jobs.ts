import { limits, traceContextOf } from '../../protocol/index.ts';
import { packJobs, type SubmitAnswer, type SubmitJob } from '../../queue/rpc.ts';
import { readerOf, submitterOf, viewerOf } from '../auth.ts';
import { parseBody, readBody } from '../body.ts';
import { HttpError } from '../errors.ts';
import { respondEarly } from '../inference/early-response.ts';
import { withheldFrom } from '../job-contents.ts';
import { isLines, submitLines } from '../job-lines.ts';
import { callQueue, queueIdOf, submitJobs } from '../objects.ts';
import { type PriorityBound, priorityBound } from '../priority.ts';
import { readSubmission, rejection, submitAll } from '../submissions.ts';
import { takeTurn } from '../turns.ts';
import { type Gateway, needs } from './types.ts';

/** The longest `?wait=`, seconds. */
const LONGEST_WAIT_SECONDS = 300;

/** Jobs that are stored: submit, look, cancel. */
export function jobRoutes(app: Gateway): void {
  app.post('/api/jobs', needs('submit'), async (context) => {
    const request = context.req.raw;
    const queueId = queueIdOf(context.env, request);
    const key = request.headers.get('idempotency-key') ?? undefined;
    const submitter = submitterOf(context.get('token'));
    const bound = priorityBound(context.get('token'));
    const submission = traceContextOf(request.headers);
    const submit = (jobs: SubmitJob[]) => {
      const trace = submission && { trace: jobs.length > 1 ? { ...submission, is_link: true } : submission };
      const sent = packJobs(jobs.map((job) => ({ ...job, ...submitter, ...trace })));
      return submitJobs(context.env, queueId, sent);
    };
    const { bytes, release } = await readBody(request, context.env);
    let endTurn = () => {};
    // As in `readBody`: of a request that is dropped nothing below runs.
    request.signal.addEventListener('abort', () => endTurn());
    const turn = async (size: number) => {
      endTurn = await takeTurn(size);
      return endTurn;
    };
    try {
      if (isLines(request)) {
        if (key)
          throw new HttpError(400, 'Idempotency-Key names one job; give the job of each line its own id.');
        return await submitLines(bytes, bound, submit, turn);
      }
      await turn(bytes.byteLength);
      const body = parseBody(bytes);
      if (Array.isArray(body)) {
        if (key)
          throw new HttpError(400, 'Idempotency-Key names one job; give each job of an array its own id.');
        return context.json(await submitMany(body, bound, submit));
      }
      const job = readSubmission(body, bound, key);
      if (job instanceof HttpError) throw job;
      const [answer] = await submit([job]);
      if (!answer?.ok) throw rejection(answer);
      return jobAnswer(answer.job, answer.created ? 201 : 200);
    } finally {
      endTurn();
      release();
    }
  });

  app.get('/api/jobs/:id', needs('submit', 'read'), async (context) => {
    const id = context.req.param('id');
    const viewer = viewerOf(context.get('token'));
    const reader = readerOf(context.get('token'), context.env);
    // Whoever wants none of its result is spared the megabytes.
    const isBare = context.req.query('result') === '0';
    const waitMs = waitOf(context.req.query('wait')) * 1000;
    const look = async () => {
      const job = await callQueue(context.env, queueIdOf(context.env, context.req.raw), (queue) =>
        waitMs > 0 ? queue.wait(id, waitMs, viewer) : queue.get(id, viewer),
      );
      if (!job) throw unknownJob(id);
      return jobAnswer(isBare ? { ...job, result: null } : withheldFrom(reader, job));
    };
    if (waitMs === 0) return look();
    // Begun early, so that a caller who has left is noticed and its connection freed.
    return respondEarly(look(), {
      kind: 'json',
      headers: {},
      errorOf: { dialect: 'openai', requestId: context.get('requestId') },
      timers: globalThis,
      hangUp: () => {},
    });
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

  app.post('/api/jobs/:id/retry', needs('submit'), async (context) => {
    const id = context.req.param('id');
    const viewer = viewerOf(context.get('token'));
    const answer = await callQueue(context.env, queueIdOf(context.env, context.req.raw), (queue) =>
      queue.retry(id, viewer),
    );
    if (!answer) throw unknownJob(id);
    if (answer.ok) return jobAnswer(answer.job);
    const message = `Job "${id}" is ${answer.state}: only what failed or expired can be tried again.`;
    throw new HttpError(409, message, 'not_retryable');
  });

  app.delete('/api/jobs/:id', needs('submit'), async (context) => {
    const id = context.req.param('id');
    const viewer = viewerOf(context.get('token'));
    const job = await callQueue(context.env, queueIdOf(context.env, context.req.raw), (queue) =>
      queue.cancel(id, 'cancelled', viewer),
    );
    if (!job) throw unknownJob(id);
    return jobAnswer(withheldFrom(readerOf(context.get('token'), context.env), job));
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
async function submitMany(
  bodies: unknown[],
  bound: PriorityBound,
  submit: (jobs: SubmitJob[]) => Promise<SubmitAnswer[]>,
) {
  if (bodies.length === 0 || bodies.length > limits.JOBS_PER_SUBMISSION) {
    throw new HttpError(
      400,
      `An array must hold 1 to ${limits.JOBS_PER_SUBMISSION} jobs; this one holds ${bodies.length}.`,
      'invalid_job',
    );
  }
  return submitAll(
    bodies.map((body) => readSubmission(body, bound)),
    submit,
  );
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
