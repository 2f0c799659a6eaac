import type { AuditWanted } from '../../fleet/rpc.ts';
import { AUDIT_ACTIONS, type AuditAction, type AuditEntry } from '../../protocol/index.ts';
import { DEFAULT_QUEUE } from '../../settings/queue-settings.ts';
import { auditConfiguredTokens } from '../auth/tokens.ts';
import type { Env } from '../env.ts';
import { callFleet } from '../objects/calls.ts';
import { queueIdOf } from '../objects/ids.ts';
import {
  invalidParameter,
  MOST_PAGE_ROWS,
  numberOfCursor,
  pageRows,
  rejectUnknownParameters,
  timeOf,
} from '../parameters.ts';
import { type Gateway, route } from './route.ts';

const PARAMETERS = ['since', 'until', 'actor', 'action', 'target', 'limit', 'cursor', 'queue_id'];

/** Registers the route that lists people's actions. */
export function auditRoute(app: Gateway): void {
  route(app, {
    method: 'GET',
    path: '/api/audit',
    tag: 'Tokens',
    summary: 'What people did, of all queues, newest first',
    description:
      'With "Accept: application/x-ndjson" all of it, a line each, without pages: limit and cursor do not count then.',
    scopes: ['admin'],
    query: {
      since: { description: 'Done then or later: ISO time, or epoch seconds.' },
      until: { description: 'Done before: ISO time, or epoch seconds.' },
      actor: { description: 'Only with the token of this name.' },
      action: { description: 'Only this action.', enum: AUDIT_ACTIONS },
      target: { description: 'Only what was done to this token, pool, job, batch or file.' },
      limit: { description: 'Entries of a page, 50 unless given, at most 500.', type: 'integer' },
      cursor: { description: 'The "next" of the page before.' },
    },
    answers: {
      200: {
        description: 'A page, or all.',
        content: [{ schema: 'AuditPage' }, { type: 'application/x-ndjson', schema: 'AuditEntry' }],
      },
    },
    errors: [400, 503],
    handler: async (context) => {
      const { env, req } = context;
      queueIdOf(env, req.raw);
      const query = req.query();
      const wanted = readWanted(query);
      await auditConfiguredTokens(env);
      const isLines = /\bapplication\/x-ndjson\b/.test(req.header('accept') ?? '');
      if (isLines) return linesOf(env, { ...wanted, before: null, limit: MOST_PAGE_ROWS });
      const entries = await ask(env, wanted);
      return context.json({ entries, next: nextOf(entries, wanted) });
    },
  });
}

function ask(env: Env, wanted: AuditWanted): Promise<AuditEntry[]> {
  return callFleet(env, DEFAULT_QUEUE, (fleet) => fleet.audit(wanted));
}

function nextOf(entries: readonly AuditEntry[], { limit }: AuditWanted): string | null {
  return entries.length < limit ? null : String(entries.at(-1)!.seq);
}

/** Returns all entries; they are read from the fleet object page by page as the caller reads them. */
async function linesOf(env: Env, wanted: AuditWanted): Promise<Response> {
  const encoder = new TextEncoder();
  // The first page is read before the response begins: a list that cannot be read is an error, not an empty export.
  let page: AuditEntry[] | null = await ask(env, wanted);
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      if (page === null || page.length === 0) return controller.close();
      controller.enqueue(encoder.encode(page.map((entry) => `${JSON.stringify(entry)}\n`).join('')));
      const next = nextOf(page, wanted);
      page = next === null ? null : await ask(env, { ...wanted, before: Number(next) });
    },
  });
  return new Response(body, { headers: { 'content-type': 'application/x-ndjson' } });
}

/** @throws HttpError 400 */
function readWanted(query: Record<string, string>): AuditWanted {
  rejectUnknownParameters(query, PARAMETERS);
  const { since, until, actor = null, action, target = null, limit, cursor } = query;
  return {
    since: timeOf('since', since),
    until: timeOf('until', until),
    actor,
    action: action === undefined ? null : actionOf(action),
    target,
    before: numberOfCursor(cursor),
    limit: pageRows(limit),
  };
}

function actionOf(text: string): AuditAction {
  const action = AUDIT_ACTIONS.find((one) => one === text);
  if (action !== undefined) return action;
  throw invalidParameter(`action: expected one of ${AUDIT_ACTIONS.join(', ')}`);
}
