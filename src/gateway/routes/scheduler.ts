import type * as z from 'zod';
import { CONFIG_ACTIONS, LauncherReport } from '../../scheduler/rpc.ts';
import { parseBody, readBody } from '../body.ts';
import { HttpError } from '../errors.ts';
import { callFleet, queueIdOf } from '../objects.ts';
import { ControlRequest, SpecRequest } from '../scheduler-requests.ts';
import { type Gateway, type GatewayContext, needs } from './types.ts';

/** Lists of some ten thousand machines. */
const REPORT_BYTES = 8 * 1024 * 1024;
const SPEC_BYTES = 1024 * 1024;
/** Faults that one answer names. */
const MOST_FAULTS = 50;

/** What operators tell the scheduler, and what launchers and it say to each other. */
export function schedulerRoutes(app: Gateway): void {
  app.get('/api/fleet/spec', needs('read'), async (context) => {
    const queueId = queueIdOf(context.env, context.req.raw);
    const spec = await callFleet(context.env, queueId, (fleet) => fleet.spec());
    if (!spec) throw noSpec();
    return context.json(spec);
  });

  app.post('/api/fleet/spec', needs('admin'), async (context) => {
    const queueId = queueIdOf(context.env, context.req.raw);
    const { spec, dry_run } = await bodyOf(context, SpecRequest, SPEC_BYTES, 'invalid_spec');
    const answer = await callFleet(context.env, queueId, (fleet) => fleet.applySpec(spec, dry_run));
    if ('refused' in answer) throw new HttpError(409, answer.refused, 'provider_in_use');
    return context.json(answer);
  });

  app.delete('/api/fleet/spec', needs('admin'), async (context) => {
    const queueId = queueIdOf(context.env, context.req.raw);
    const isDryRun = context.req.query('dry_run') === 'true';
    const change = await callFleet(context.env, queueId, (fleet) => fleet.removeSpec(isDryRun));
    if (!change) throw noSpec();
    return context.json(change);
  });

  for (const action of CONFIG_ACTIONS) {
    app.post(`/api/fleet/configs/:id/${action}`, needs('admin'), async (context) => {
      const queueId = queueIdOf(context.env, context.req.raw);
      const { dry_run } = await bodyOf(context, ControlRequest, SPEC_BYTES, 'invalid_control');
      const configId = context.req.param('id');
      const answer = await callFleet(context.env, queueId, (fleet) =>
        fleet.control(configId, action, dry_run),
      );
      if (answer.ok) return context.json({ text: answer.text, control: answer.control });
      if (answer.reason === 'unknown_config') throw new HttpError(404, answer.message, 'config_not_found');
      throw new HttpError(409, answer.message, 'launch_refused');
    });
  }

  app.post('/api/launchers/:id/sync', needs('launcher'), async (context) => {
    const queueId = queueIdOf(context.env, context.req.raw);
    const launcherId = context.req.param('id');
    if (launcherId.length > 256) {
      throw new HttpError(400, 'The id of a launcher has at most 256 characters.', 'invalid_launcher_id');
    }
    const report = await bodyOf(context, LauncherReport, REPORT_BYTES, 'invalid_report');
    return context.json(await callFleet(context.env, queueId, (fleet) => fleet.sync(launcherId, report)));
  });
}

/** @throws HttpError 400 that names every fault; as `readBody` */
async function bodyOf<T>(
  { req, env }: GatewayContext,
  schema: z.ZodType<T>,
  mostBytes: number,
  code: string,
): Promise<T> {
  const { bytes, release } = await readBody(req.raw, env, mostBytes);
  let body: unknown;
  try {
    body = bytes.length === 0 ? {} : parseBody(bytes);
  } finally {
    release();
  }
  const parsed = schema.safeParse(body);
  if (parsed.success) return parsed.data;
  const faults = parsed.error.issues.map(({ path, message }) =>
    path.length > 0 ? `${path.join('.')}: ${message}` : message,
  );
  const more = faults.length > MOST_FAULTS ? [`… and ${faults.length - MOST_FAULTS} more`] : [];
  throw new HttpError(400, [...faults.slice(0, MOST_FAULTS), ...more].join('\n'), code);
}

function noSpec(): HttpError {
  return new HttpError(
    404,
    'No fleet has been applied to this queue: "worker-vllm schedule fleet.yaml" applies one.',
    'no_fleet',
  );
}
