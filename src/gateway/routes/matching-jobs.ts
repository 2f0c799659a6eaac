import type * as z from 'zod';
import type { JobListWanted, JobPage, JobsAction } from '../../queue/rpc.ts';
import { audited } from '../audit.ts';
import { viewerOf } from '../auth/authorize.ts';
import type { Env } from '../env.ts';
import { callQueue } from '../objects/calls.ts';
import { queueIdOf } from '../objects/ids.ts';
import type { ActedOnJobs } from '../openapi/answers.ts';
import {
  cursorOf,
  FILTER_PARAMETERS,
  invalidCursor,
  invalidParameter,
  placeOf,
  rejectUnknownParameters,
  trueOrFalse,
  wantedOf,
} from '../parameters.ts';
import { type Gateway, route } from './route.ts';

/**
 * The jobs of one command, all in one commit: others get their turn between two. A purge of 8,000 in one took 1.3 s.
 */
const BITE_JOBS = 100;
/**
 * The most calls of the queue in one request, each over 2,000 jobs at most; so a request changes 4,000 jobs at most.
 */
const MOST_LOOKS = 40;
/** The most ids that an answer names. */
const MOST_NAMED = 20;

/**
 * The states of the jobs that each action is for, in the order of a job's life: a job that changes its state meanwhile
 * is found in the next.
 */
const STATES: Record<JobsAction, readonly string[]> = {
  cancel: ['pending', 'leased'],
  retry: ['failed', 'expired'],
};
const PARAMETERS = [...Object.keys(FILTER_PARAMETERS), 'dry_run', 'cursor', 'queue_id'];

const SUMMARIES: Record<JobsAction, string> = {
  cancel: 'Cancels all stored jobs that match a filter',
  retry: 'All stored jobs that match a filter, and failed or expired, are tried again under their ids',
};

type Acted = z.infer<typeof ActedOnJobs>;

/** Registers the routes that act on many jobs at once. */
export function matchingJobsRoutes(app: Gateway): void {
  for (const action of ['cancel', 'retry'] as const) {
    route(app, {
      method: 'POST',
      path: `/api/jobs/${action}`,
      tag: 'Jobs',
      summary: SUMMARIES[action],
      description:
        'At least one filter is given. A request does a part: while "next" is not null, the same request with it as cursor goes on.',
      scopes: ['submit'],
      query: {
        ...FILTER_PARAMETERS,
        dry_run: { description: 'true: only tells how many, and which.', type: 'boolean' },
        cursor: { description: 'The "next" of the request before.' },
      },
      answers: { 200: { description: 'What was done, or would be.', content: { schema: 'ActedOnJobs' } } },
      errors: [400, 404, 503],
      handler: async (context) => {
        const queueId = queueIdOf(context.env, context.req.raw);
        const query = context.req.query();
        rejectUnknownParameters(query, PARAMETERS);
        const isDryRun = query.dry_run !== undefined && trueOrFalse('dry_run', query.dry_run);
        const { dry_run: _, cursor: __, queue_id: ___, ...filter } = query;
        if (Object.values(filter).every((value) => value === '')) {
          throw invalidParameter(`${action}: name at least one filter, such as state=${STATES[action][0]}`);
        }
        const wanted = wantedOf(query, viewerOf(context.get('token')));
        const { state } = wanted.filter;
        if (state !== null && !STATES[action].includes(state)) {
          throw invalidParameter(`state: expected ${STATES[action].join(' or ')} to ${action}, or none`);
        }
        const act = () =>
          actOnMatching(context.env, queueId, action, wanted, startOf(action, state, query.cursor), isDryRun);
        if (isDryRun) return context.json(await act());
        const before = { jobs_of: wanted.viewer ?? 'all tenants' };
        const entry = {
          action: `jobs.${action}`,
          target: new URLSearchParams(filter).toString(),
          before,
        } as const;
        return context.json(await audited(context, entry, act, ({ jobs }) => ({ jobs })));
      },
    });
  }
}

interface Place {
  state: string;
  before: JobPage['next'];
}

/** Changes the jobs that match, a call of the queue at a time, from one state to the next. */
async function actOnMatching(
  env: Env,
  queueId: string,
  action: JobsAction,
  { filter, ...wanted }: Omit<JobListWanted, 'before' | 'limit'>,
  start: Place,
  isDryRun: boolean,
): Promise<Acted> {
  const states = filter.state === null ? STATES[action] : [filter.state];
  const acted: Acted = { jobs: 0, ids: [], next: null };
  let place: Place | undefined = start;
  for (let looks = 0; place && looks < MOST_LOOKS; looks += 1) {
    const { state, before }: Place = place;
    const page: JobPage = await callQueue(env, queueId, (queue) =>
      queue.list({ ...wanted, filter: { ...filter, state }, before, limit: BITE_JOBS }),
    );
    const ids = page.jobs.map(({ id }) => id);
    const count = isDryRun
      ? ids.length
      : await callQueue(env, queueId, (queue) => queue.actOnJobs(action, ids, wanted.viewer));
    acted.jobs += count;
    acted.ids.push(...ids.slice(0, MOST_NAMED - acted.ids.length));
    const following = states[states.indexOf(state) + 1];
    if (page.next) place = { state, before: page.next };
    else place = following === undefined ? undefined : { state: following, before: null };
  }
  return { ...acted, next: place ? `${place.state}.${place.before ? cursorOf(place.before) : ''}` : null };
}

/** Returns where a request begins. @throws HttpError 400 for a cursor that is not the "next" of such a request */
function startOf(action: JobsAction, state: string | null, cursor: string | undefined): Place {
  if (cursor === undefined) return { state: state ?? STATES[action][0]!, before: null };
  const [at = '', place] = cursor.split('.');
  if (!STATES[action].includes(at) || (state !== null && at !== state)) throw invalidCursor();
  return { state: at, before: placeOf(place || undefined) };
}
