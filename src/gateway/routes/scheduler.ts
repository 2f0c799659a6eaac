import type * as z from 'zod';
import { protoIn } from '../../protocol/fields.ts';
import { schemaWords } from '../../protocol/index.ts';
import { LauncherReport, POOL_ACTIONS, type PoolAction } from '../../scheduler/rpc.ts';
import type { FleetSpec, PoolSpec } from '../../scheduler/spec.ts';
import { audited } from '../audit.ts';
import { parseBody, readBody } from '../bodies/body.ts';
import { HttpError } from '../errors.ts';
import { callFleet } from '../objects/calls.ts';
import { queueIdOf } from '../objects/ids.ts';
import { ControlRequest, RollBody, SpecRequest } from '../openapi/requests.ts';
import { type Gateway, type GatewayContext, route } from './route.ts';

/** The most bytes of a launcher's report: room for lists of some ten thousand machines. */
const REPORT_BYTES = 8 * 1024 * 1024;
const SPEC_BYTES = 1024 * 1024;
/** The most faults that one answer names. */
const MOST_FAULTS = 50;

const CONTROLS: Record<PoolAction, string> = {
  launch: 'Launches one worker more for a pool, within its max and the budget',
  drain:
    'Ends all workers of a pool, busy ones once they have finished, and launches none until it is resumed',
  pause: 'Holds the workers of a pool as they are: launches none, ends none',
  resume: 'Lets the rule decide again for a pool that was paused or drained, or whose starts failed',
};

/** How refusals of a roll are answered. */
const ROLL_REFUSALS = {
  unknown_pool: [404, 'pool_not_found'],
  unknown_version: [404, 'version_not_found'],
} as const;

/** Registers the routes by which operators and launchers report to the scheduler and ask it. */
export function schedulerRoutes(app: Gateway): void {
  route(app, {
    method: 'GET',
    path: '/api/fleet/spec',
    tag: 'Fleet',
    summary: "The fleet's file that is in force",
    scopes: ['read'],
    answers: { 200: { description: 'The file.', content: { schema: 'AppliedSpec' } } },
    errors: [404, 503],
    handler: async (context) => {
      const queueId = queueIdOf(context.env, context.req.raw);
      const spec = await callFleet(context.env, queueId, (fleet) => fleet.spec());
      if (!spec) throw noSpec();
      return context.json(spec);
    },
  });

  route(app, {
    method: 'POST',
    path: '/api/fleet/spec',
    tag: 'Fleet',
    summary: "Puts a fleet's file in force, as JSON",
    description:
      'A file with faults is answered 400 with all of them, a line each; one that gives the name of a provider that has machines to another place, 409. The old one stays in force.',
    scopes: ['admin'],
    body: { schema: 'SpecRequest' },
    answers: { 200: { description: 'What has changed, or would.', content: { schema: 'SpecChange' } } },
    errors: [400, 409, 413, 503],
    handler: async (context) => {
      const queueId = queueIdOf(context.env, context.req.raw);
      const { spec, dry_run } = await bodyOf(context, SpecRequest, SPEC_BYTES, 'invalid_spec');
      const apply = async () => {
        const answer = await callFleet(context.env, queueId, (fleet) => fleet.applySpec(spec, dry_run));
        if ('refused' in answer) throw new HttpError(409, answer.refused, 'provider_in_use');
        return answer;
      };
      if (dry_run) return context.json(await apply());
      const before = await fleetInForce(context, queueId);
      const entry = { action: 'fleet.apply', target: queueId, before } as const;
      const change = await audited(context, entry, apply, ({ changes }) => ({ ...inShort(spec), changes }));
      return context.json(change);
    },
  });

  route(app, {
    method: 'DELETE',
    path: '/api/fleet/spec',
    tag: 'Fleet',
    summary: 'Takes the file back: all that was launched is drained and terminated',
    scopes: ['admin'],
    query: { dry_run: { description: 'true: only tells what would change.', type: 'boolean' } },
    answers: { 200: { description: 'What has changed, or would.', content: { schema: 'SpecChange' } } },
    errors: [404, 503],
    handler: async (context) => {
      const queueId = queueIdOf(context.env, context.req.raw);
      const isDryRun = context.req.query('dry_run') === 'true';
      const remove = async () => {
        const change = await callFleet(context.env, queueId, (fleet) => fleet.removeSpec(isDryRun));
        if (change) return change;
        throw noSpec();
      };
      if (isDryRun) return context.json(await remove());
      const before = await fleetInForce(context, queueId);
      const entry = { action: 'fleet.remove', target: queueId, before } as const;
      return context.json(await audited(context, entry, remove, ({ changes }) => ({ changes })));
    },
  });

  for (const action of POOL_ACTIONS) {
    route(app, {
      method: 'POST',
      path: `/api/fleet/pools/:id/${action}`,
      tag: 'Fleet',
      summary: CONTROLS[action],
      scopes: ['admin'],
      body: { schema: 'ControlRequest' },
      answers: { 200: { description: 'What was done, or would be.', content: { schema: 'Controlled' } } },
      errors: [400, 404, 409, 413, 503],
      handler: async (context) => {
        const queueId = queueIdOf(context.env, context.req.raw);
        const { dry_run } = await bodyOf(context, ControlRequest, SPEC_BYTES, 'invalid_control');
        const configId = context.req.param('id');
        const act = async () => {
          const answer = await callFleet(context.env, queueId, (fleet) =>
            fleet.control(configId, action, dry_run),
          );
          if (answer.ok) return { text: answer.text, control: answer.control };
          if (answer.reason === 'unknown_pool') throw new HttpError(404, answer.message, 'pool_not_found');
          throw new HttpError(409, answer.message, 'launch_refused');
        };
        const before = await callFleet(context.env, queueId, (fleet) => fleet.controlOf(configId));
        if (dry_run || before === null) return context.json(await act());
        const entry = { action: `pool.${action}`, target: configId, before: { control: before } } as const;
        return context.json(await audited(context, entry, act, (answer) => answer));
      },
    });
  }

  route(app, {
    method: 'POST',
    path: '/api/fleet/pools/:id/roll',
    tag: 'Fleet',
    summary: 'Replaces the workers of a pool by those of another version, or holds such a rollout',
    description:
      '`anew` replaces each worker by one that is started with the same, `to` by one of a version that is kept, `back` by one of the version that served well before; `pause` holds a rollout, and `resume` goes on. docs/rollouts.md has the rule.',
    scopes: ['admin'],
    body: { schema: 'RollBody' },
    answers: { 200: { description: 'What was done, or would be.', content: { schema: 'Rolled' } } },
    errors: [400, 404, 413, 503],
    handler: async (context) => {
      const queueId = queueIdOf(context.env, context.req.raw);
      const { dry_run, ...request } = await bodyOf(context, RollBody, SPEC_BYTES, 'invalid_roll');
      const configId = context.req.param('id');
      const act = async () => {
        const answer = await callFleet(context.env, queueId, (fleet) =>
          fleet.roll(configId, request, dry_run),
        );
        if (answer.ok) return { text: answer.text, wanted: answer.wanted };
        const [status, code] = ROLL_REFUSALS[answer.reason];
        throw new HttpError(status, answer.message, code);
      };
      const isKnown = (await callFleet(context.env, queueId, (fleet) => fleet.controlOf(configId))) !== null;
      if (dry_run || !isKnown) return context.json(await act());
      const entry = { action: 'pool.roll', target: configId } as const;
      return context.json(await audited(context, entry, act, ({ wanted }) => ({ ...request, wanted })));
    },
  });

  route(app, {
    method: 'POST',
    path: '/api/launchers/:id/sync',
    tag: 'Fleet',
    summary: 'What a launcher has seen and done, for the orders that are due',
    description: 'docs/scheduling.md tells the conversation. Everything may be said twice.',
    scopes: ['launcher'],
    body: { schema: 'LauncherReport' },
    answers: { 200: { description: 'The orders.', content: { schema: 'LauncherAnswer' } } },
    errors: [400, 413, 503],
    handler: async (context) => {
      const queueId = queueIdOf(context.env, context.req.raw);
      const launcherId = context.req.param('id');
      if (launcherId.length > 256) {
        throw new HttpError(400, 'The id of a launcher has at most 256 characters.', 'invalid_launcher_id');
      }
      const report = await bodyOf(context, LauncherReport, REPORT_BYTES, 'invalid_report');
      return context.json(await callFleet(context.env, queueId, (fleet) => fleet.sync(launcherId, report)));
    },
  });
}

/** Returns a request's body. @throws HttpError 400 that names every fault; as `readBody` */
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
  const unnamed = protoIn(body);
  if (unnamed !== null) throw new HttpError(400, `${unnamed.join('.')}: is no name of anything`, code);
  const parsed = schema.safeParse(body, { error: schemaWords });
  if (parsed.success) return parsed.data;
  const faults = parsed.error.issues.map(({ path, message }) =>
    path.length > 0 ? `${path.join('.')}: ${message}` : message,
  );
  const more = faults.length > MOST_FAULTS ? [`… and ${faults.length - MOST_FAULTS} more`] : [];
  throw new HttpError(400, [...faults.slice(0, MOST_FAULTS), ...more].join('\n'), code);
}

/** Returns what the audit records of a fleet's file. */
function inShort({ budget, pools }: FleetSpec): object {
  const short = ([id, { model, min, max }]: [string, PoolSpec]) => [id, { model, min, max }];
  return { budget, pools: Object.fromEntries(Object.entries(pools).map(short)) };
}

async function fleetInForce({ env }: GatewayContext, queueId: string): Promise<object | null> {
  const applied = await callFleet(env, queueId, (fleet) => fleet.spec());
  return applied && inShort(applied.spec);
}

function noSpec(): HttpError {
  return new HttpError(
    404,
    'No fleet has been applied to this queue: "worker-vllm launcher fleet.yaml" applies one.',
    'no_fleet',
  );
}
