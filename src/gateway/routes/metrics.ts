import manifest from '../../../package.json' with { type: 'json' };
import type { PoolNow } from '../../queue/rpc.ts';
import type { Env } from '../env.ts';
import { HttpError } from '../errors.ts';
import { EXPOSITION_TYPE, exposition } from '../metrics/exposition.ts';
import { families } from '../metrics/families.ts';
import { callFleet, callQueue } from '../objects/calls.ts';
import { queueIdOf } from '../objects/ids.ts';
import { type Gateway, route } from './route.ts';

/** A scraper that asks again within this many ms gets the same text. */
const KEPT_MS = 1000;

/** The newest text by queue id. */
const kept = new Map<string, { at: number; text: string }>();

/** Returns the answer to `GET /metrics` of a queue, from one call of each of its two objects. */
async function metricsText(env: Env, queueId: string): Promise<string> {
  const now = Date.now();
  for (const [id, { at }] of kept) if (now - at >= KEPT_MS || at > now) kept.delete(id);
  const known = kept.get(queueId);
  if (known) return known.text;
  const [queue, fleet] = await Promise.all([
    callQueue(env, queueId, (queue) => queue.metrics()),
    callFleet(env, queueId, (fleet) => fleet.view()),
  ]);
  const filters = (env.filters ?? []).flatMap((filter) => filter.families?.() ?? []);
  const text = exposition([...families(queue, fleet, manifest.version), ...filters]);
  kept.set(queueId, { at: Date.now(), text });
  return text;
}

/** Registers the numbers for machines: Prometheus, autoscalers. */
export function metricsRoutes(app: Gateway): void {
  route(app, {
    method: 'GET',
    path: '/metrics',
    tag: 'Metrics and usage',
    summary: "The queue's numbers for Prometheus",
    description: 'docs/metrics.md lists them. Answers of one second are the same.',
    scopes: ['read'],
    answers: { 200: { description: "Prometheus' text format 0.0.4.", content: { type: 'text/plain' } } },
    errors: [503],
    handler: async (context) => {
      const text = await metricsText(context.env, queueIdOf(context.env, context.req.raw));
      return context.body(text, 200, { 'content-type': EXPOSITION_TYPE });
    },
  });

  route(app, {
    method: 'GET',
    path: '/api/scale',
    tag: 'Metrics and usage',
    summary: 'How much work there is for the workers of a pool, for autoscalers',
    scopes: ['read'],
    query: { config_id: { description: 'Of which pool.' } },
    answers: { 200: { description: 'As it stands.', content: { schema: 'Scale' } } },
    errors: [400, 503],
    handler: async (context) => {
      const queueId = queueIdOf(context.env, context.req.raw);
      const config_id = context.req.query('config_id');
      if (!config_id) {
        throw new HttpError(400, 'Say of which pool: ?config_id=…', 'invalid_config_id');
      }
      const [now, wanted] = await Promise.all([
        callQueue(context.env, queueId, (queue) => queue.poolNow(config_id)),
        callFleet(context.env, queueId, (fleet) => fleet.wantedWorkers(config_id)),
      ]);
      // The scheduler's rule says how many workers it wants, where a fleet's file names the pool.
      return context.json({ config_id, ...scaleOf(now), ...(wanted !== null && { wanted_workers: wanted }) });
    },
  });
}

function scaleOf({ pending: jobs, slots, slots_per_worker, workers, wanted_workers }: PoolNow) {
  const pending = jobs.reduce((sum, { waiting, stored }) => sum + waiting + stored, 0);
  return {
    pending,
    running: slots.busy,
    pending_and_running: pending + slots.busy,
    slots: slots.busy + slots.free + slots.paused,
    slots_per_worker,
    workers: workers.ready + workers.paused + workers.draining,
    ready_workers: workers.ready,
    wanted_workers,
  };
}
