import { audited } from '../../../gateway/audit.ts';
import { readValue } from '../../../gateway/bodies/body.ts';
import { HttpError } from '../../../gateway/errors.ts';
import { callFleet } from '../../../gateway/objects/calls.ts';
import { queueIdOf } from '../../../gateway/objects/ids.ts';
import { type Gateway, route } from '../../../gateway/routes/route.ts';
import { type AlertMute, MuteRequest, parseValue } from '../../../protocol/index.ts';

/** The most bytes of a body that asks for a mute. */
const MUTE_BYTES = 8192;

/** Registers the routes for the receivers of alerts and for mutes. */
export function alertRoutes(app: Gateway): void {
  route(app, {
    method: 'GET',
    path: '/api/alerts',
    tag: 'Fleet',
    summary: 'Who is told of problems, how each receiver took it, and which alerts are muted',
    scopes: ['read'],
    answers: { 200: { description: 'Receivers and mutes.', content: { schema: 'AlertsView' } } },
    errors: [503],
    handler: async (context) => {
      const queueId = queueIdOf(context.env, context.req.raw);
      return context.json(await callFleet(context.env, queueId, (fleet) => fleet.alerts()));
    },
  });

  route(app, {
    method: 'POST',
    path: '/api/alerts/receivers/:name/test',
    tag: 'Fleet',
    summary: 'Sends a test to a receiver of alerts, at once, and says how it answered',
    scopes: ['admin'],
    answers: { 200: { description: 'What became of it.', content: { schema: 'TestPost' } } },
    errors: [404, 503],
    handler: async (context) => {
      const queueId = queueIdOf(context.env, context.req.raw);
      const name = context.req.param('name');
      const act = async () => {
        const answer = await callFleet(context.env, queueId, (fleet) => fleet.testAlertReceiver(name));
        if (answer !== null) return answer;
        const message = `There is no receiver of alerts named "${name}". GET /api/alerts lists them.`;
        throw new HttpError(404, message, 'receiver_not_found');
      };
      return context.json(await audited(context, { action: 'alerts.test', target: name }, act));
    },
  });

  route(app, {
    method: 'POST',
    path: '/api/alerts/mutes',
    tag: 'Fleet',
    summary: 'Mutes alerts until a time',
    description:
      'Of problems of the pool and the kind that it names, else of all, nothing is posted until then. What still stands then is posted, and so is the end of what was posted before.',
    scopes: ['admin'],
    body: { schema: 'MuteRequest' },
    answers: { 201: { description: 'The mute.', content: { schema: 'AlertMute' } } },
    errors: [400, 409, 413, 503],
    handler: async (context) => {
      const queueId = queueIdOf(context.env, context.req.raw);
      const body = await readValue(context.req.raw, context.env, MUTE_BYTES);
      const request = parseValue(MuteRequest, body);
      if (!request.ok) throw new HttpError(400, `Not a mute: ${request.message}`, 'invalid_mute');
      const by = context.get('token')?.name ?? null;
      const act = async () => {
        const mute = await callFleet(context.env, queueId, (fleet) => fleet.mute(request.value, by));
        if (mute !== null) return mute;
        throw new HttpError(409, 'There are as many mutes as are kept: end some first.', 'too_many_mutes');
      };
      const entry = { action: 'alerts.mute', target: targetOf(request.value) } as const;
      return context.json(await audited(context, entry, act, inAudit), 201);
    },
  });

  route(app, {
    method: 'DELETE',
    path: '/api/alerts/mutes/:id',
    tag: 'Fleet',
    summary: 'Ends a mute early',
    scopes: ['admin'],
    answers: { 200: { description: 'The mute as it was.', content: { schema: 'AlertMute' } } },
    errors: [404, 503],
    handler: async (context) => {
      const queueId = queueIdOf(context.env, context.req.raw);
      const id = context.req.param('id');
      const { mutes } = await callFleet(context.env, queueId, (fleet) => fleet.alerts());
      const before = mutes.find((mute) => mute.id === id);
      const act = async () => {
        const mute = await callFleet(context.env, queueId, (fleet) => fleet.endMute(id));
        if (mute !== null) return mute;
        throw new HttpError(404, `No mute ${id} is in force. GET /api/alerts lists them.`, 'mute_not_found');
      };
      const target = before ? targetOf(before) : id;
      const entry = { action: 'alerts.unmute', target, before: before ? inAudit(before) : null } as const;
      return context.json(await audited(context, entry, act));
    },
  });
}

/** Returns what a mute concerns, in words. */
function targetOf({
  pool,
  kind,
}: {
  pool?: string | null | undefined;
  kind?: string | null | undefined;
}): string {
  const parts = [...(pool ? [`pool ${pool}`] : []), ...(kind ? [`kind ${kind}`] : [])];
  return parts.join(', ') || 'everything';
}

function inAudit({ id, until, why }: AlertMute): object {
  return { id, until: new Date(until).toISOString(), ...(why !== null && { why }) };
}
