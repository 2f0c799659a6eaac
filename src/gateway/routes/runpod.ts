import { type IdKind, idOf } from '../../protocol/ids.ts';
import { type RunpodJob, runpodStatus, traceContextOf } from '../../protocol/index.ts';
import type { ToldJob } from '../../queue/rpc.ts';
import { audited, auditedOfJob, stateAfter } from '../audit.ts';
import { aliasesFor } from '../auth/aliases.ts';
import { readerOf, viewerOf } from '../auth/authorize.ts';
import { permissionsOf } from '../auth/permissions.ts';
import { submissionOf } from '../auth/terms.ts';
import { whileGood } from '../auth/tokens.ts';
import { parseKeeping, readBody } from '../bodies/body.ts';
import { HttpError } from '../errors.ts';
import { modelsOf, workersOf } from '../fleet-views.ts';
import { respondEarly } from '../inference/answer.ts';
import { jobAnswers } from '../jobs/job-answers.ts';
import { ERASED, jsonResponse, wholeJob, withheldFrom } from '../jobs/job-files.ts';
import { rejection } from '../jobs/submissions.ts';
import { submitJobs } from '../jobs/submit-jobs.ts';
import { callQueue } from '../objects/calls.ts';
import { queueIdOf } from '../objects/ids.ts';
import {
  nextOutputs,
  poolOfEndpoint,
  readRunpodSubmission,
  runpodWorkers,
  shownJob,
  unknownEndpoint,
} from '../runpod.ts';
import { type Gateway, type GatewayContext, route } from './route.ts';

/**
 * `runsync` waits this many ms for the end of a job: the bounds that RunPod allows, and the time that it takes where
 * the caller gives none.
 */
const SYNC_WAIT_MS = { least: 1000, most: 300_000, usual: 90_000 };

const sleep = (ms: number) => new Promise<void>((done) => setTimeout(done, ms));

const SUBMISSION = { schema: 'RunpodSubmission', example: { input: { prompt: 'Hello' } } } as const;
const JOB = { 200: { description: 'The job.', content: { schema: 'RunpodJob' } } } as const;

/** Registers the endpoints of RunPod's platform, docs/runpod.md. `{endpoint}` is a pool, a model, or "default". */
export function runpodRoutes(app: Gateway): void {
  route(app, {
    method: 'POST',
    path: '/v2/:endpoint/run',
    tag: 'RunPod',
    summary: 'Stores a job',
    scopes: ['submit'],
    body: SUBMISSION,
    answers: { 200: { description: 'It is stored.', content: { schema: 'RunpodSubmitted' } } },
    errors: [400, 404, 413, 429, 503],
    handler: async (context) => {
      const job = await submit(context, 'runpod');
      return context.json({ id: job.id, status: 'IN_QUEUE' });
    },
  });

  route(app, {
    method: 'POST',
    path: '/v2/:endpoint/runsync',
    tag: 'RunPod',
    summary: 'Stores a job and waits for its end',
    scopes: ['submit'],
    query: {
      wait: { description: 'At most, ms: 1,000 to 300,000, 90,000 unless given.', type: 'integer' },
    },
    body: SUBMISSION,
    answers: JOB,
    errors: [400, 404, 413, 429, 503],
    handler: async (context) => {
      const waitMs = syncWaitOf(context.req.query('wait'));
      const { id } = await submit(context, 'runpod_sync');
      const viewer = viewerOf(context.get('token'));
      const done = call(context, (queue) => queue.wait(id, waitMs, viewer)).then(async (job) =>
        jsonResponse(await shown(context, found(job, id))),
      );
      // The response begins early, so that a caller who has left is noticed and its connection freed; the job goes on.
      return respondEarly(whileGood(context.get('token'), context.env, done), {
        kind: 'json',
        headers: {},
        errorOf: { dialect: 'runpod', requestId: context.get('requestId') },
        timers: globalThis,
        hangUp: () => {},
      });
    },
  });

  // RunPod's clients use either method.
  for (const method of ['GET', 'POST'] as const) {
    route(app, {
      method,
      path: '/v2/:endpoint/status/:id',
      tag: 'RunPod',
      summary: 'A job',
      scopes: ['submit', 'read'],
      answers: JOB,
      errors: [404, 503],
      handler: async (context) => {
        const reader = readerOf(context.get('token'), context.env);
        return jsonResponse(await shown(context, withheldFrom(reader, await jobOf(context))));
      },
    });

    route(app, {
      method,
      path: '/v2/:endpoint/stream/:id',
      tag: 'RunPod',
      summary: 'What a job yielded since the last call',
      scopes: ['submit'],
      answers: { 200: { description: 'Its outputs.', content: { schema: 'RunpodStream' } } },
      errors: [404, 503],
      handler: async (context) => {
        const { env } = context;
        const id = context.req.param('id') as string;
        const reader = readerOf(context.get('token'), env);
        const queueId = queueIdOf(env, context.req.raw);
        const { follow, openReplay } = jobAnswers(env, queueId, id, reader);
        const stream = await nextOutputs(id, {
          follow: async (fence, waitMs) => {
            const followed = await follow(fence, waitMs);
            return followed?.job.job_type === 'runpod' ? followed : null;
          },
          openReplay,
          take: (from, to) => call(context, (queue) => queue.takeOutput(id, from, to, reader)),
          whole: (job) => wholeJob(env, queueId, job),
          sleep,
        });
        return jsonResponse(found(stream, id));
      },
    });
  }

  route(app, {
    method: 'POST',
    path: '/v2/:endpoint/cancel/:id',
    tag: 'RunPod',
    summary: 'Cancels a job',
    scopes: ['submit'],
    answers: JOB,
    errors: [404, 503],
    handler: async (context) => {
      const { id } = await jobOf(context);
      const viewer = viewerOf(context.get('token'));
      const cancel = async () =>
        found(await call(context, (queue) => queue.cancel(id, 'cancelled', viewer)), id);
      const job = await auditedOfJob(context, 'job.cancel', id, cancel, stateAfter);
      const reader = readerOf(context.get('token'), context.env);
      return jsonResponse(await shown(context, withheldFrom(reader, job as ToldJob)));
    },
  });

  route(app, {
    method: 'POST',
    path: '/v2/:endpoint/retry/:id',
    tag: 'RunPod',
    summary: 'Runs a job again that failed or timed out',
    scopes: ['submit'],
    answers: { 200: { description: 'It waits again.', content: { schema: 'RunpodSubmitted' } } },
    errors: [400, 404, 503],
    handler: async (context) => {
      const job = await jobOf(context);
      const viewer = viewerOf(context.get('token'));
      const retry = async () => {
        const answer = found(await call(context, (queue) => queue.retry(job.id, viewer)), job.id);
        if (answer.ok) return answer.job;
        const status = runpodStatus(job);
        const message = answer.is_erased
          ? ERASED
          : `Only jobs that are FAILED or TIMED_OUT can be retried; this one is ${status}.`;
        throw new HttpError(400, message, 'not_retryable');
      };
      await auditedOfJob(context, 'job.retry', job.id, retry, stateAfter);
      return context.json({ id: job.id, status: 'IN_QUEUE' });
    },
  });

  route(app, {
    method: 'POST',
    path: '/v2/:endpoint/purge-queue',
    tag: 'RunPod',
    summary: 'Cancels all jobs that wait',
    scopes: ['submit'],
    answers: { 200: { description: 'They are gone.', content: { schema: 'RunpodPurged' } } },
    errors: [404, 503],
    handler: async (context) => {
      const configId = await poolOf(context);
      const viewer = viewerOf(context.get('token'));
      const purge = async () => {
        let removed = 0;
        for (;;) {
          const some = await call(context, (queue) => queue.purge(configId, viewer));
          if (some === 0) return removed;
          removed += some;
        }
      };
      const entry = {
        action: 'queue.purge',
        target: configId,
        before: { jobs_of: viewer ?? 'all tenants' },
      } as const;
      const removed = await audited(context, entry, purge, (jobs) => ({ cancelled: jobs }));
      return context.json({ removed, status: 'completed' });
    },
  });

  route(app, {
    method: 'GET',
    path: '/v2/:endpoint/health',
    tag: 'RunPod',
    summary: 'Jobs and workers of an endpoint',
    scopes: ['submit', 'read'],
    answers: { 200: { description: 'How many there are.', content: { schema: 'RunpodHealth' } } },
    errors: [404, 503],
    handler: async (context) => {
      const configId = await poolOf(context);
      const queueId = queueIdOf(context.env, context.req.raw);
      const [{ in_queue: inQueue, in_progress: inProgress, ...ended }, workers] = await Promise.all([
        call(context, (queue) => queue.poolJobs(configId)),
        workersOf(context.env, queueId),
      ]);
      return context.json({
        jobs: { ...ended, inProgress, inQueue },
        workers: runpodWorkers(configId, workers),
      });
    },
  });

  // The rest of the path is a route of OpenAI's API; it answers as without the prefix, its errors included.
  app.all('/v2/:endpoint/openai/v1/*', (context) => {
    const url = new URL(context.req.url);
    url.pathname = url.pathname.replace(/^\/v2\/[^/]+\/openai/, '');
    const request = new Request(url, context.req.raw);
    request.headers.set('x-request-id', context.get('requestId'));
    return app.fetch(request, context.env, context.executionCtx);
  });
}

function call<T>(context: GatewayContext, ask: Parameters<typeof callQueue<T>>[2]): Promise<T> {
  return callQueue(context.env, queueIdOf(context.env, context.req.raw), ask);
}

/** Stores the job that the body describes. @param kind the kind of its id */
async function submit(context: GatewayContext, kind: IdKind): Promise<ToldJob> {
  const { env } = context;
  const endpoint = endpointOf(context);
  const queueId = queueIdOf(env, context.req.raw);
  const { bytes, release } = await readBody(context.req.raw, env);
  try {
    const job = readRunpodSubmission(
      parseKeeping(bytes, ['input']),
      idOf(kind, queueId),
      endpoint,
      permissionsOf(context.get('token'), await aliasesFor(env, queueId, context.get('token'))),
    );
    release();
    const submitter = submissionOf(context.get('token'));
    const [answer] = await submitJobs(env, queueId, [
      { ...job, ...submitter, trace: traceContextOf(context.req.raw.headers) },
    ]);
    if (answer?.ok) return answer.job;
    const isUnknown = answer?.reason === 'no_pool' || answer?.reason === 'unknown_pool';
    throw isUnknown ? await noEndpoint(context, endpoint) : rejection(answer);
  } finally {
    release();
  }
}

async function noEndpoint(context: GatewayContext, endpoint: string): Promise<Error> {
  return poolOf(context).then(
    () => unknownEndpoint(endpoint, 'It has just come: try again.'),
    (error: Error) => error,
  );
}

async function poolOf(context: GatewayContext): Promise<string> {
  const models = await modelsOf(context.env, queueIdOf(context.env, context.req.raw));
  const [model] = await call(context, (queue) => queue.mainModels([endpointOf(context)]));
  return poolOfEndpoint(model!, models);
}

function endpointOf(context: GatewayContext): string {
  return context.req.param('endpoint') as string;
}

/** @throws HttpError 404, also for a job that was not submitted in RunPod's form */
async function jobOf(context: GatewayContext): Promise<ToldJob> {
  const id = context.req.param('id') as string;
  const job = await call(context, (queue) => queue.get(id, viewerOf(context.get('token'))));
  return found(job?.job_type === 'runpod' ? job : null, id);
}

async function shown(context: GatewayContext, job: ToldJob): Promise<RunpodJob> {
  return shownJob(await wholeJob(context.env, queueIdOf(context.env, context.req.raw), job));
}

function found<T>(value: T | null, id: string): T {
  if (value !== null) return value;
  throw new HttpError(404, `There is no job "${id}".`, 'job_not_found');
}

function syncWaitOf(text: string | undefined): number {
  const { least, most, usual } = SYNC_WAIT_MS;
  if (text === undefined) return usual;
  const waitMs = text.trim() === '' ? Number.NaN : Number(text);
  if (waitMs >= least && waitMs <= most) return waitMs;
  throw new HttpError(400, `wait: expected milliseconds from ${least} to ${most}.`, 'invalid_wait');
}
