import { listNames, shortName } from '../../protocol/index.ts';
import { HttpError } from '../errors.ts';
import { type ModelView, modelsOf } from '../fleet-views.ts';
import { queueIdOf } from '../objects.ts';
import { type Gateway, needs } from './types.ts';

/** Models that connected workers serve now. */
export function modelRoutes(app: Gateway): void {
  app.get('/v1/models', needs('submit', 'read'), async (context) => {
    const models = await modelsOf(context.env, queueIdOf(context.env, context.req.raw));
    return context.json({ object: 'list', data: models.filter((model) => model.available).map(openAIModel) });
  });

  // Names of models hold slashes, written as they are or as %2F.
  app.get('/v1/models/:id{.+}', needs('submit', 'read'), async (context) => {
    const id = context.req.param('id');
    const models = await modelsOf(context.env, queueIdOf(context.env, context.req.raw));
    const model = models.find((candidate) => candidate.id === id);
    if (model?.available) return context.json(openAIModel(model));
    const names = models.filter((candidate) => candidate.available).map((candidate) => candidate.id);
    const there = names.length > 0 ? `Models there are: ${listNames(names)}.` : 'No model is served now.';
    const why = model ? 'has no worker at the moment' : 'is not known here';
    throw new HttpError(404, `The model "${shortName(id)}" ${why}. ${there}`, 'model_not_found');
  });
}

function openAIModel(model: ModelView) {
  return {
    id: model.id,
    object: 'model',
    created: Math.floor(model.first_seen_ms / 1000),
    owned_by: model.config_id,
  };
}
