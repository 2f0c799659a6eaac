import { HISTORY_RANGES, type HistoryRange, type Subject } from '../../fleet/rpc.ts';
import { type FleetView, Heartbeat, parseValue } from '../../protocol/index.ts';
import { audited } from '../audit.ts';
import { isAuthorized, requireQueueId, requireWorkerId } from '../auth/authorize.ts';
import { readValue } from '../bodies/body.ts';
import { awayError, HttpError } from '../errors.ts';
import { workersOf } from '../fleet-views.ts';
import { callFleet, callQueue } from '../objects/calls.ts';
import { queueIdOf } from '../objects/ids.ts';
import { watchFleet } from '../objects/sockets.ts';
import { AcknowledgeRequest } from '../openapi/requests.ts';
import { timeOf } from '../parameters.ts';
import { type Gateway, type GatewayContext, requireUpgrade, route } from './route.ts';

/** The answer to what a worker reports. */
export const TAKEN = { 200: { description: 'It is kept.', content: { schema: 'Ok' } } } as const;

/** The most bytes of a heartbeat: far more than one has with the longest error message. */
const HEARTBEAT_BYTES = 256 * 1024;
/** The most bytes of a body that holds the id of a problem. */
const ACKNOWLEDGE_BYTES = 4096;

/** Registers the routes for heartbeats that workers post, and for the fleet as operators read it. */
export function fleetRoutes(app: Gateway): void {
  route(app, {
    method: 'POST',
    path: '/api/heartbeats',
    tag: 'Workers',
    summary: 'What a worker tells of itself',
    scopes: ['worker'],
    body: { schema: 'Heartbeat' },
    answers: TAKEN,
    errors: [400, 404, 413, 503],
    handler: async (context) => {
      const body = await readValue(context.req.raw, context.env, HEARTBEAT_BYTES);
      const beat = parseValue(Heartbeat, body);
      if (!beat.ok) throw new HttpError(400, `Not a heartbeat: ${beat.message}`, 'invalid_heartbeat');
      requireWorkerId(context.get('token'), beat.value.worker_id ?? beat.value.instance_id);
      const queueId = queueIdOf(context.env, context.req.raw, beat.value.queue_id);
      requireQueueId(context.get('token'), queueId);
      await callFleet(context.env, queueId, (fleet) => fleet.heartbeat(beat.value));
      return context.json({ status: 'ok' });
    },
  });

  route(app, {
    method: 'GET',
    path: '/api/fleet',
    tag: 'Fleet',
    summary: 'The fleet in one view: a verdict, what needs attention, pools and workers',
    scopes: ['read'],
    answers: { 200: { description: 'The view.', content: { schema: 'FleetView' } } },
    errors: [503],
    handler: async (context) => {
      const queueId = queueIdOf(context.env, context.req.raw);
      return compressed(context, await callFleet(context.env, queueId, (fleet) => fleet.view()));
    },
  });

  route(app, {
    method: 'POST',
    path: '/api/fleet/attention/acknowledge',
    tag: 'Fleet',
    summary: 'Says that a problem of the attention list is seen to',
    description:
      'It stays in the list with whom and when, and is told to nobody until it has gone and come back.',
    scopes: ['admin'],
    body: { schema: 'AcknowledgeRequest' },
    answers: { 200: { description: 'The problem.', content: { schema: 'Attention' } } },
    errors: [400, 404, 413, 503],
    handler: async (context) => {
      const queueId = queueIdOf(context.env, context.req.raw);
      const body = await readValue(context.req.raw, context.env, ACKNOWLEDGE_BYTES);
      const request = parseValue(AcknowledgeRequest, body);
      if (!request.ok) throw new HttpError(400, request.message, 'invalid_acknowledgement');
      const { id } = request.value;
      const act = async () => {
        const by = context.get('token')?.name ?? null;
        const problem = await callFleet(context.env, queueId, (fleet) => fleet.acknowledge(id, by));
        if (problem === null)
          throw new HttpError(404, `No problem ${id} needs attention.`, 'problem_not_found');
        return problem;
      };
      const entry = { action: 'attention.acknowledge', target: id } as const;
      return context.json(await audited(context, entry, act, ({ text }) => ({ problem: text })));
    },
  });

  route(app, {
    method: 'GET',
    path: '/api/fleet/history',
    tag: 'Fleet',
    summary: 'What was measured of the fleet, a pool, a model or a worker, and what happened to its machines',
    description:
      'Without an id: of the fleet. Steps of 10 s up to an hour, of a minute up to a day, of an hour beyond, and of what is longer ago those that are kept; of a worker a day is.',
    scopes: ['read'],
    query: {
      worker_id: { description: 'Of this worker.' },
      config_id: { description: 'Of this pool.' },
      model: { description: 'Of this model.' },
      range: { description: 'So long, 1h unless given.', enum: HISTORY_RANGES },
      until: { description: 'Its end: ISO time, or epoch seconds; now unless given.' },
    },
    answers: { 200: { description: 'The series.', content: { schema: 'FleetHistory' } } },
    errors: [400, 503],
    handler: async (context) => {
      const { of, range, until } = historyOf(context);
      const queueId = queueIdOf(context.env, context.req.raw);
      return compressed(
        context,
        await callFleet(context.env, queueId, (fleet) => fleet.history(of, range, until)),
      );
    },
  });

  route(app, {
    method: 'GET',
    path: '/api/fleet/live',
    tag: 'Fleet',
    summary: 'The same as a WebSocket that tells what changes',
    description: 'The viewer sends FleetViewerFrame and is sent FleetFrame; "ping" is answered with "pong".',
    scopes: ['read'],
    answers: { 101: { description: 'The socket is open.' } },
    errors: [426, 503],
    handler: (context) => {
      requireUpgrade(
        context,
        'This address is for WebSocket connections of viewers: poll GET /api/fleet instead.',
      );
      const queueId = queueIdOf(context.env, context.req.raw);
      return watchFleet(context.env, queueId, context.req.raw, context.get('token'));
    },
  });

  route(app, {
    method: 'GET',
    path: '/api/workers',
    tag: 'Fleet',
    summary: 'All workers, connected or heard of',
    scopes: ['read'],
    answers: { 200: { description: 'The workers.', content: { schema: 'WorkerList' } } },
    errors: [503],
    handler: async (context) => {
      const workers = await workersOf(context.env, queueIdOf(context.env, context.req.raw));
      return context.json({ workers });
    },
  });

  route(app, {
    method: 'DELETE',
    path: '/api/workers/:id',
    tag: 'Fleet',
    summary: 'Forgets a worker that is gone',
    description:
      'It goes from lists, verdict and attention. A heartbeat of it, or its connection, makes it known again. 409 while it is connected.',
    scopes: ['admin'],
    answers: { 200: { description: 'It is forgotten.', content: { schema: 'Ok' } } },
    errors: [404, 409, 503],
    handler: async (context) => {
      const queueId = queueIdOf(context.env, context.req.raw);
      const id = context.req.param('id');
      const act = () => forget(context, queueId, id);
      await audited(context, { action: 'worker.forget', target: id }, act);
      return context.json({ status: 'ok' });
    },
  });

  // These routes are open to probes that hold no token; such probes learn only that the gateway answers.
  for (const path of ['/health', '/healthz']) {
    route(app, {
      method: 'GET',
      path,
      tag: 'Fleet',
      summary: 'That the gateway is up',
      description: 'Open to probes without a token; with one of the scope read, also how the queue stands.',
      scopes: [],
      answers: { 200: { description: 'It is.', content: { schema: 'Health' } } },
      errors: [503],
      handler: async ({ req: { raw }, env, json }) => {
        const away = env.away?.() ?? null;
        if (away?.refuses) throw awayError(away);
        if (away) return json({ status: 'ok', queue_away_since: new Date(away.since).toISOString() });
        if (!(await isAuthorized(raw, env, ['read']))) return json({ status: 'ok' });
        const queueId = queueIdOf(env, raw);
        const [status, view] = await Promise.all([
          callQueue(env, queueId, (queue) => queue.status()),
          callFleet(env, queueId, (fleet) => fleet.view()),
        ]);
        return json({ status: 'ok', ...status, ...enginesOf(view) });
      },
    });
  }
}

/** @throws HttpError where the worker is not known, or is connected */
async function forget({ env }: GatewayContext, queueId: string, id: string): Promise<void> {
  // After this call the fleet object knows of every connection.
  await callQueue(env, queueId, (queue) => queue.tellFleet());
  const done = await callFleet(env, queueId, (fleet) => fleet.forgetWorker(id));
  if (done === 'unknown') throw new HttpError(404, `No worker ${id} is known.`, 'worker_not_found');
  if (done === 'connected') {
    const message = `The worker ${id} is connected: end it first, or drain it.`;
    throw new HttpError(409, message, 'worker_connected');
  }
}

/** Returns the models and the GPU memory of the workers that are there. */
function enginesOf({ workers }: FleetView) {
  const present = workers.filter(({ state }) => state !== 'lost' && state !== 'stopped');
  const gpus = present.flatMap((worker) => worker.gpus);
  const bytes = (name: 'memory_used_bytes' | 'memory_total_bytes') => {
    const told = gpus.flatMap((gpu) => gpu[name] ?? []);
    return told.length === 0 ? null : told.reduce((sum, one) => sum + one, 0);
  };
  return {
    models: [...new Set(present.flatMap(({ models }) => models))].sort(),
    gpu_memory_used_bytes: bytes('memory_used_bytes'),
    gpu_memory_total_bytes: bytes('memory_total_bytes'),
  };
}

/** @throws HttpError 400 */
function historyOf({ req }: GatewayContext): { of: Subject; range: HistoryRange; until: number | null } {
  const given = Object.entries({
    worker: req.query('worker_id'),
    pool: req.query('config_id'),
    model: req.query('model'),
  }).flatMap(([kind, id]): Subject[] => (id ? [{ kind: kind as Subject['kind'], id }] : []));
  if (given.length > 1) {
    throw new HttpError(
      400,
      'Say whose history: one of worker_id, config_id and model, or none for the fleet.',
      'invalid_history',
    );
  }
  const range = (req.query('range') ?? '1h') as HistoryRange;
  if (!HISTORY_RANGES.includes(range)) {
    throw new HttpError(400, `range: expected one of ${HISTORY_RANGES.join(', ')}.`, 'invalid_history');
  }
  return { of: given[0] ?? { kind: 'fleet', id: '' }, range, until: timeOf('until', req.query('until')) };
}

/**
 * Returns JSON for the page, compressed where it accepts that: the page asks for some of it again and again, and a
 * view of the fleet is a sixth as long compressed.
 */
function compressed(context: GatewayContext, value: unknown): Response {
  const headers = new Headers({ 'content-type': 'application/json', vary: 'accept-encoding' });
  const text = JSON.stringify(value);
  if (!/\bgzip\b/.test(context.req.header('accept-encoding') ?? '')) return new Response(text, { headers });
  headers.set('content-encoding', 'gzip');
  const bytes = new Blob([text]).stream().pipeThrough(new CompressionStream('gzip'));
  // Cloudflare's runtime, which alone knows the option, would compress the body once more without it.
  const init = { headers, encodeBody: 'manual' } as const;
  return new Response(bytes, init);
}

/** Registers the route that shows what tenants have of the pools that they share. */
export function sharingRoute(app: Gateway): void {
  route(app, {
    method: 'GET',
    path: '/api/sharing',
    tag: 'Metrics and usage',
    summary: 'Who waits for whom: tenants by pool, with what each had in the last hour and who is next',
    scopes: ['read'],
    answers: { 200: { description: 'The pools.', content: { schema: 'Sharing' } } },
    errors: [503],
    handler: async (context) => {
      const queueId = queueIdOf(context.env, context.req.raw);
      return context.json({ pools: await callQueue(context.env, queueId, (queue) => queue.sharing()) });
    },
  });
}
