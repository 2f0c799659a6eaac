import type { ConfigNow } from '../../queue/rpc.ts';
import { HttpError } from '../errors.ts';
import { EXPOSITION_TYPE } from '../metrics/exposition.ts';
import { metricsText } from '../metrics/text.ts';
import { callFleet, callQueue, queueIdOf } from '../objects.ts';
import { type Gateway, needs } from './types.ts';

/** Numbers for machines: Prometheus, autoscalers. */
export function metricsRoutes(app: Gateway): void {
  app.get('/metrics', needs('read'), async (context) => {
    const text = await metricsText(context.env, queueIdOf(context.env, context.req.raw));
    return context.body(text, 200, { 'content-type': EXPOSITION_TYPE });
  });

  app.get('/api/scale', needs('read'), async (context) => {
    const queueId = queueIdOf(context.env, context.req.raw);
    const config_id = context.req.query('config_id');
    if (!config_id) {
      throw new HttpError(400, 'Say of which config: ?config_id=…', 'invalid_config_id');
    }
    const [now, wanted] = await Promise.all([
      callQueue(context.env, queueId, (queue) => queue.configNow(config_id)),
      callFleet(context.env, queueId, (fleet) => fleet.wantedWorkers(config_id)),
    ]);
    // What the scheduler's rule wants, where a fleet's file names the config.
    return context.json({ config_id, ...scaleOf(now), ...(wanted !== null && { wanted_workers: wanted }) });
  });
}

function scaleOf({ waiting, slots, slots_per_worker, workers, wanted_workers }: ConfigNow) {
  const pending = waiting.reduce((sum, { transient, persisted }) => sum + transient + persisted, 0);
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
