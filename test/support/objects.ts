import type { Objects } from '../../src/asking/objects.ts';

/** The objects of every queue as a test plays them; asking for another one is an error. */
export function playedObjects(played: { [Name in keyof Objects]?: (...ids: string[]) => object }): Objects {
  const absent = (name: string) => () => {
    throw new Error(`no ${name} object can be reached here`);
  };
  const names = ['queue', 'fleet', 'batches', 'files', 'responses', 'keptRequests', 'relay'] as const;
  return Object.fromEntries(names.map((name) => [name, played[name] ?? absent(name)])) as unknown as Objects;
}

/** For routes that open no socket of the gateway's own. */
export function acceptNothing(): never {
  throw new Error('the gateway opens no socket here');
}
