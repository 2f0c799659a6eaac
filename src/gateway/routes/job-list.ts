import * as z from 'zod';
import type { ListedJob } from '../../protocol/index.ts';
import { isJobState, JOB_STATES, parseValue } from '../../protocol/index.ts';
import type { JobFilter, JobPage } from '../../queue/rpc.ts';
import { viewerOf } from '../auth.ts';
import { settlementEvents } from '../job-events.ts';
import { callQueue } from '../objects/calls.ts';
import { queueIdOf } from '../objects/queue-ids.ts';
import { invalidCursor, invalidParameter, pageRows, rejectUnknownParameters, timeOf } from '../parameters.ts';
import { type Gateway, route } from './route.ts';

/** Looks at the queue for one page: each passes over a bounded number of jobs. */
const MOST_LOOKS = 20;
const FILTERS = ['config_id', 'job_type', 'tenant', 'worker_id', 'error_code'] as const;
const PARAMETERS = ['state', ...FILTERS, 'id_prefix', 'since', 'until', 'limit', 'cursor', 'queue_id'];

/** Many jobs at once: a list of them, and their settlements as they come. */
export function jobListRoutes(app: Gateway): void {
  route(app, {
    method: 'GET',
    path: '/api/jobs',
    tag: 'Jobs',
    summary: 'The stored jobs, newest first',
    scopes: ['submit', 'read'],
    query: {
      state: { description: 'Only those in this state.', enum: JOB_STATES },
      config_id: { description: 'Only those of this pool.' },
      job_type: { description: 'Only those of this type.' },
      tenant: { description: 'Only those of this tenant.' },
      worker_id: { description: 'Only those that this worker had last.' },
      error_code: { description: 'Only those that ended with this error.' },
      id_prefix: { description: 'Only those whose ids begin so, in the order of their ids.' },
      since: { description: 'Submitted then or later: ISO time, or epoch seconds.' },
      until: { description: 'Submitted before: ISO time, or epoch seconds.' },
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
      const wanted = {
        filter: {
          state: stateOf(query.state),
          ...(Object.fromEntries(FILTERS.map((name) => [name, query[name] ?? null])) as Omit<
            JobFilter,
            'state'
          >),
        },
        id_prefix: query.id_prefix || null,
        since: timeOf('since', query.since),
        until: timeOf('until', query.until),
        viewer,
      };
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

function stateOf(text: string | undefined): string | null {
  if (text === undefined || isJobState(text)) return text ?? null;
  throw invalidParameter('state: expected pending, leased, succeeded, failed, cancelled or expired');
}

function numberOf(text: string | undefined): number | null {
  if (text === undefined || text === '') return null;
  if (!/^\d{1,15}$/.test(text))
    throw invalidParameter('Last-Event-ID: expected the id of an event of this stream');
  return Number(text);
}

const Place = z.tuple([z.number().int().nonnegative(), z.number().int().nonnegative()]);
const PlaceById = z.tuple([z.string().regex(/^[\w.:-]{1,128}$/)]);

function cursorOf(place: NonNullable<JobPage['next']>): string {
  const parts = 'id' in place ? [place.id] : [place.created_at, place.seq];
  return btoa(JSON.stringify(parts)).replaceAll('=', '');
}

function placeOf(cursor: string | undefined): JobPage['next'] {
  if (cursor === undefined) return null;
  try {
    const parts = JSON.parse(atob(cursor));
    const place = parseValue(Place, parts);
    if (place.ok) return { created_at: place.value[0], seq: place.value[1] };
    const byId = parseValue(PlaceById, parts);
    if (byId.ok) return { id: byId.value[0] };
  } catch {
    // Said below.
  }
  throw invalidCursor();
}
