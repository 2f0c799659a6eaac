import { type Alias, modelOf } from '../../aliases/alias.ts';
import { targetsOf } from '../../aliases/resolve.ts';
import type { PoolStart } from '../../fleet/rpc.ts';
import { listNames, shortName } from '../../protocol/index.ts';
import { HttpError } from '../errors.ts';
import { type ModelView, modelsOf } from '../fleet-views.ts';
import { callQueue } from '../objects/calls.ts';
import { queueIdOf } from '../objects/ids.ts';
import { type Gateway, type GatewayContext, route } from './route.ts';

/**
 * Registers the models that are served, or for which a worker would be started, as their engines report them, and
 * their aliases.
 */
export function modelRoutes(app: Gateway): void {
  route(app, {
    method: 'GET',
    path: '/v1/models',
    tag: 'Inference',
    summary: 'The models that connected workers serve, and their aliases',
    scopes: ['submit', 'read'],
    answers: { 200: { description: 'The models.', content: { schema: 'ModelList' } } },
    errors: [503],
    handler: async (context) => {
      const { listed } = await readModels(context);
      return context.json({ object: 'list', data: listed });
    },
  });

  // Names of models hold slashes, which callers write as they are or as %2F.
  route(app, {
    method: 'GET',
    path: '/v1/models/:id{.+}',
    tag: 'Inference',
    summary: 'One of them',
    scopes: ['submit', 'read'],
    answers: { 200: { description: 'The model.', content: { schema: 'Model' } } },
    errors: [404, 503],
    handler: async (context) => {
      const id = context.req.param('id');
      const { listed, all } = await readModels(context);
      const model = listed.find((candidate) => candidate.id === id);
      if (model) return context.json(model);
      const names = listed.flatMap((candidate) => (candidate.pool.state === 'ready' ? candidate.id : []));
      const there = names.length > 0 ? `Models there are: ${listNames(names)}.` : 'No model is served now.';
      const isKnown = all.some((candidate) => candidate.id === id);
      const why = isKnown ? 'has no worker at the moment' : 'is not known here';
      throw new HttpError(404, `The model "${shortName(id)}" ${why}. ${there}`, 'model_not_found');
    },
  });
}

async function readModels(context: GatewayContext) {
  const { env, req } = context;
  const queueId = queueIdOf(env, req.raw);
  const [all, table] = await Promise.all([
    modelsOf(env, queueId),
    callQueue(env, queueId, (queue) => queue.aliases()),
  ]);
  const served = all.filter(({ state }) => state !== 'gone');
  const scopes = context.get('token')?.scopes;
  const mayRead = scopes === undefined || scopes.some((scope) => scope === 'read' || scope === 'admin');
  const aliases = Object.entries(table).flatMap(([name, alias]) => {
    const [model] = targetsOf(table, name).flatMap((target) => served.find(({ id }) => id === target) ?? []);
    if (model === undefined) return [];
    const steps = mayRead ? { steps: stepsOf(alias) } : {};
    return [{ ...openAIModel(model), id: name, alias: true, alias_of: model.id, ...steps }];
  });
  return { all, listed: [...served.map(openAIModel), ...aliases] };
}

/** Returns what an alias stands for: the models that share its requests, and then its fall-backs in order. */
function stepsOf({ to, then, on }: Alias) {
  return [
    ...to,
    ...then.map((step) => ({
      model: modelOf(step),
      ...(typeof step !== 'string' && { external: true }),
      on,
    })),
  ];
}

/** Returns the engine's own fields, where it reports them, and the pool beside them. */
function openAIModel({ id, card, first_seen_ms, config_id, state, start }: ModelView) {
  const pool = { id: config_id, state, ...(start && startOf(start)) };
  if (card) return { ...card, pool };
  const created = Math.floor(first_seen_ms / 1000);
  return { id, object: 'model', created, owned_by: config_id, pool };
}

/** Returns how far a worker's start is, or why none is started. */
function startOf({ state, progress, text }: PoolStart) {
  if (state === 'scaled_to_zero') return {};
  return { ...(state === 'starting' && { progress }), detail: text };
}
