import type { Alias } from '../../src/aliases/alias.ts';
import { QueueHarness } from './queue-harness.ts';

/** Returns an alias of one model, with what a test says of it. */
export function alias(model: string, more: Partial<Alias> = {}): Alias {
  return { split: { by: 'session' }, to: [{ model, weight: 1 }], then: [], on: [], ...more };
}

/** Makes a queue to which the fleet object has told these aliases, and that it starts no workers. */
export function queueWith(
  aliases: Record<string, Alias>,
  settings?: ConstructorParameters<typeof QueueHarness>[0],
): QueueHarness {
  const queue = new QueueHarness(settings);
  queue.queue.do('takeAliases', aliases);
  queue.queue.do('takeStarts', []);
  return queue;
}

/** Connects a worker of a pool of its own that serves the model. */
export function worker(queue: QueueHarness, model: string, capacity = 4) {
  return queue.worker(`w-${model}`, { config_id: `pool-${model}`, capacity, instance: { models: [model] } });
}

/** Returns a request for a completion by the model. */
export function payload(model: string): string {
  const body = JSON.stringify({ model, prompt: 'a' });
  return JSON.stringify({ method: 'POST', path: '/v1/completions', body });
}

/** Asks for the model by its name, as a caller who waits. */
export function ask(queue: QueueHarness, model: string, more: object = {}) {
  return queue.request({ model, payload: payload(model), ...more });
}
