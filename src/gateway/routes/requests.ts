import type { RequestFilter, RequestPage } from '../../fleet/rpc.ts';
import { REQUEST_KINDS, REQUEST_OUTCOMES } from '../../protocol/index.ts';
import { viewerOf } from '../auth/authorize.ts';
import { callFleet } from '../objects/calls.ts';
import { queueIdOf } from '../objects/ids.ts';
import {
  invalidParameter,
  numberOfCursor,
  pageRows,
  rejectUnknownParameters,
  timeOf,
  trueOrFalse,
} from '../parameters.ts';
import { type Gateway, route } from './route.ts';

/** The most calls of the fleet object for one page: each passes over a bounded number of requests. */
const MOST_LOOKS = 25;
/** The parameters that select by a column, with the column's name. */
const EXACT = {
  outcome: 'outcome',
  kind: 'kind',
  model: 'model',
  config_id: 'config_id',
  route: 'route',
  tenant: 'tenant',
  token: 'token_name',
  worker_id: 'worker_id',
  error_code: 'error_code',
} as const satisfies Record<string, keyof RequestFilter>;
const PARAMETERS = [
  ...Object.keys(EXACT),
  'id',
  'text',
  'slow',
  'since',
  'until',
  'limit',
  'cursor',
  'queue_id',
];
const CHOICES: Record<string, readonly string[]> = { outcome: REQUEST_OUTCOMES, kind: REQUEST_KINDS };

/** Registers the list of requests of every kind that have ended, as the fleet object keeps them. */
export function requestRoutes(app: Gateway): void {
  route(app, {
    method: 'GET',
    path: '/api/requests',
    tag: 'Fleet',
    summary: 'Requests of every kind that have ended, newest first',
    description:
      'Live requests, stored jobs and lines of batches, without what was said. A busy queue keeps some of those that went well, and says how many each stands for (docs/http.md).',
    scopes: ['submit', 'read'],
    query: {
      outcome: { description: 'Only those that ended so.', enum: REQUEST_OUTCOMES },
      kind: { description: 'Only those of this kind.', enum: REQUEST_KINDS },
      id: { description: 'Only those whose X-Job-Id or X-Request-Id begins so.' },
      model: { description: 'Only those of this model.' },
      config_id: { description: 'Only those of this pool.' },
      route: { description: 'Only those of this route, or type of stored job.' },
      token: { description: 'Only those of the token of this name.' },
      tenant: { description: 'Only those of this tenant.' },
      worker_id: { description: 'Only those that this worker had last.' },
      error_code: { description: 'Only those that ended with this error.' },
      text: { description: 'Only those whose error says this, in either case.' },
      slow: {
        description: 'Only those that were slow (true), or were not (false).',
        enum: ['true', 'false'],
      },
      since: { description: 'Ended then or later: ISO time, or epoch seconds.' },
      until: { description: 'Ended before: ISO time, or epoch seconds.' },
      limit: { description: 'Requests of a page, 50 unless given, at most 500.', type: 'integer' },
      cursor: { description: 'The "next" of the page before.' },
    },
    answers: { 200: { description: 'A page.', content: { schema: 'RequestPage' } } },
    errors: [400, 503],
    handler: async (context) => {
      const queueId = queueIdOf(context.env, context.req.raw);
      const query = context.req.query();
      const wanted = { ...wantedOf(query), viewer: viewerOf(context.get('token')) };
      const requests: RequestPage['requests'] = [];
      let before = numberOfCursor(query.cursor);
      for (let looks = 0; looks < MOST_LOOKS; looks += 1) {
        const limit = wanted.limit - requests.length;
        const page: RequestPage = await callFleet(context.env, queueId, (fleet) =>
          fleet.requests({ ...wanted, before, limit }),
        );
        requests.push(...page.requests);
        before = page.next;
        if (before === null || requests.length >= wanted.limit) break;
      }
      return context.json({ requests, next: before === null ? null : String(before) });
    },
  });
}

/** @throws HttpError 400 */
function wantedOf(query: Record<string, string>) {
  rejectUnknownParameters(query, PARAMETERS);
  for (const [name, choices] of Object.entries(CHOICES)) {
    const value = query[name];
    if (value && !choices.includes(value))
      throw invalidParameter(`${name}: expected ${choices.slice(0, -1).join(', ')} or ${choices.at(-1)}`);
  }
  const exact = Object.entries(EXACT).map(([name, column]) => [column, query[name] || null]);
  return {
    filter: {
      ...Object.fromEntries(exact),
      is_slow: query.slow ? trueOrFalse('slow', query.slow) : null,
    } as RequestFilter,
    id: query.id || null,
    text: query.text || null,
    since: timeOf('since', query.since || undefined),
    until: timeOf('until', query.until || undefined),
    limit: pageRows(query.limit),
  };
}
