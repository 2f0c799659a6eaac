import type { ListedJob } from '../../protocol/index.ts';
import type { JobPage } from '../../queue/rpc.ts';
import { viewerOf } from '../auth.ts';
import { cursorOf, FILTER_PARAMETERS, placeOf, wantedOf } from '../job-query.ts';
import { callQueue } from '../objects/calls.ts';
import { queueIdOf } from '../objects/queue-ids.ts';
import { pageRows, rejectUnknownParameters } from '../parameters.ts';
import { type Gateway, route } from './route.ts';

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
