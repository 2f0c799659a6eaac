import { callQueue } from '../objects/calls.ts';
import { queueIdOf } from '../objects/queue-ids.ts';
import { type Gateway, route } from './route.ts';

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
