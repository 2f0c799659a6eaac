import type { ListedJob } from '../../protocol/index.ts';
import type { JobPage } from '../../queue/rpc.ts';
import { viewerOf } from '../auth.ts';
import { settlementEvents } from '../job-events.ts';
import { cursorOf, FILTER_PARAMETERS, placeOf, wantedOf } from '../job-query.ts';
import { callQueue } from '../objects/calls.ts';
import { queueIdOf } from '../objects/queue-ids.ts';
import { invalidParameter, pageRows, rejectUnknownParameters } from '../parameters.ts';
import { type Gateway, route } from './route.ts';

/** Looks at the queue for one page: each passes over a bounded number of jobs. */
const MOST_LOOKS = 20;
const PARAMETERS = [...Object.keys(FILTER_PARAMETERS), 'limit', 'cursor', 'queue_id'];

/** Many jobs at once: a list of them, and their settlements as they come. */
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

  route(app, {
    method: 'GET',
    path: '/api/jobs/events',
    tag: 'Jobs',
    summary: 'Settlements as server-sent events',
    scopes: ['submit', 'read'],
    query: {
      after: { description: 'The number of the last event that is known; the header goes before.' },
      config_id: { description: 'Only those of this pool.' },
    },
    headers: { 'Last-Event-ID': { description: 'The number of the last event that is known.' } },
    answers: {
      200: {
        description: 'Events "settled", each with its number as id; "gap" where some may be missing.',
        content: { type: 'text/event-stream', schema: 'SettlementEvent' },
      },
    },
    errors: [400, 429, 503],
    handler: (context) => {
      const { env } = context;
      const request = context.req.raw;
      const queueId = queueIdOf(env, request);
      const viewer = viewerOf(context.get('token'));
      const after = numberOf(request.headers.get('last-event-id') ?? context.req.query('after'));
      const config_id = context.req.query('config_id') ?? null;
      return settlementEvents(after, request.signal, {
        ask: (after, wait_ms) =>
          callQueue(env, queueId, (queue) => queue.settlements({ after, wait_ms, config_id, viewer })),
        sleep: (ms) => new Promise((done) => setTimeout(done, ms)),
      });
    },
  });
}

function numberOf(text: string | undefined): number | null {
  if (text === undefined || text === '') return null;
  if (!/^\d{1,15}$/.test(text))
    throw invalidParameter('Last-Event-ID: expected the id of an event of this stream');
  return Number(text);
}
