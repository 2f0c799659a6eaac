import type { ListedJob } from '../../protocol/index.ts';
import type { JobPage } from '../../queue/rpc.ts';
import { readerOf, viewerOf } from '../auth/authorize.ts';
import { endsWithToken, whileGood } from '../auth/tokens.ts';
import { HttpError } from '../errors.ts';
import { respondEarly } from '../inference/answer.ts';
import { followJob } from '../inference/follow-job.ts';
import { jobAnswers } from '../jobs/job-answers.ts';
import { jobFile, wholeJob } from '../jobs/job-files.ts';
import { callQueue } from '../objects/calls.ts';
import { queueIdOf } from '../objects/ids.ts';
import {
  cursorOf,
  FILTER_PARAMETERS,
  pageRows,
  placeOf,
  rejectUnknownParameters,
  wantedOf,
} from '../parameters.ts';
import { type Gateway, type GatewayContext, route } from './route.ts';

/** The most calls of the queue for one page: each passes over a bounded number of jobs. */
const MOST_LOOKS = 20;
const PARAMETERS = [...Object.keys(FILTER_PARAMETERS), 'limit', 'cursor', 'queue_id'];

/** Registers the list of jobs. */
export function jobListRoutes(app: Gateway): void {
  route(app, {
    method: 'GET',
    path: '/api/jobs',
    tag: 'Jobs',
    summary: 'The stored jobs, newest first',
    scopes: ['submit', 'read'],
    query: {
      ...FILTER_PARAMETERS,
      limit: { description: 'Jobs of a page, 50 unless given, at most 500.', type: 'integer' },
      cursor: { description: 'The "next" of the page before.' },
    },
    answers: { 200: { description: 'A page.', content: { schema: 'JobPage' } } },
    errors: [400, 503],
    handler: async (context) => {
      const queueId = queueIdOf(context.env, context.req.raw);
      const query = context.req.query();
      const viewer = viewerOf(context.get('token'));
      rejectUnknownParameters(query, PARAMETERS);
      const limit = pageRows(query.limit);
      const wanted = wantedOf(query, viewer);
      const jobs: ListedJob[] = [];
      let before = placeOf(query.cursor);
      for (let looks = 0; looks < MOST_LOOKS; looks += 1) {
        const page: JobPage = await callQueue(context.env, queueId, (queue) =>
          queue.list({ ...wanted, before, limit: limit - jobs.length }),
        );
        jobs.push(...page.jobs);
        before = page.next;
        if (before === null || jobs.length === limit) break;
      }
      return context.json({ jobs, next: before && cursorOf(before) });
    },
  });
}

/** Registers the routes of a job's payload and result, each on its own: either may have megabytes. */
export function jobContentsRoutes(app: Gateway): void {
  for (const what of ['payload', 'result'] as const) {
    route(app, {
      method: 'GET',
      path: `/api/jobs/:id/${what}`,
      tag: 'Jobs',
      summary: `The ${what} of a job by itself, as a file`,
      description:
        'Of jobs of the own tenant; with the scope admin of every job (docs/security.md, "Tenants").',
      scopes: ['submit'],
      answers: { 200: { description: `The ${what}.`, content: {} } },
      errors: [404, 503],
      handler: (context) => download(context, what),
    });
  }
}

/** Returns a job's payload or result as a file to be saved. A browser must never show it itself: others wrote it. */
async function download(context: GatewayContext, kind: 'payload' | 'result'): Promise<Response> {
  const id = context.req.param('id') as string;
  const reader = readerOf(context.get('token'), context.env);
  const queueId = queueIdOf(context.env, context.req.raw);
  const contents = await callQueue(context.env, queueId, (queue) => queue.contents(id, kind, reader));
  if (contents === null) throw missing(id, kind);
  const gone = () => missing(id, kind);
  const body =
    'text' in contents ? contents.text : (await jobFile(context.env, queueId, contents.file, gone)).body;
  return new Response(body, {
    headers: {
      'content-type': 'application/json',
      'content-disposition': `attachment; filename="${id.replaceAll(/[^\w.-]/g, '_')}-${kind}.json"`,
      'x-content-type-options': 'nosniff',
    },
  });
}

function missing(id: string, kind: string): HttpError {
  const message = `There is no ${kind} of a job "${id}" for you: either there is no such job, it has none (yet), or it is another tenant's, whose payloads and results QUEUE_SHOW_PAYLOADS=1 shows to admins.`;
  return new HttpError(404, message, `${kind}_not_found`);
}

/** Registers the answer of a stored job, while it is made and after. Readers change nothing for the job. */
export function jobStreamRoute(app: Gateway): void {
  route(app, {
    method: 'GET',
    path: '/api/jobs/:id/stream',
    tag: 'Jobs',
    summary: 'The answer of a job that was submitted with stream: true, from its beginning',
    scopes: ['submit'],
    answers: {
      200: { description: "The engine's own events.", content: { type: 'text/event-stream' } },
    },
    errors: [404, 409, 410, 503],
    handler: async (context) => {
      const { env } = context;
      const request = context.req.raw;
      const queueId = queueIdOf(env, request);
      const id = context.req.param('id');
      const reader = readerOf(context.get('token'), env);
      const hungUp = new AbortController();
      request.signal.addEventListener('abort', () => hungUp.abort());
      const answered = followJob(id, hungUp.signal, {
        ...jobAnswers(env, queueId, id, reader),
        whole: (job) => wholeJob(env, queueId, job),
        now: () => Date.now(),
      });
      const caller = context.get('token');
      const named = whileGood(caller, env, answered).then((response) => {
        const watched = endsWithToken(caller, env, response);
        watched.headers.set('x-job-id', id);
        return watched;
      });
      // Nobody reads what comes after the token has ended.
      named.catch(() => hungUp.abort());
      return respondEarly(named, {
        kind: 'events',
        headers: { 'x-job-id': id },
        errorOf: { dialect: 'openai', requestId: context.get('requestId') },
        timers: globalThis,
        hangUp: () => hungUp.abort(),
      });
    },
  });
}
