import { expect, it } from 'vitest';
import type { EngineCall } from '../../../src/engine/client/types.ts';
import { modelIdentity } from '../../../src/worker/model-identity.ts';
import { answered } from '../../support/fake-engine.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

const MODEL: {
  names: string[];
  cards: { id: string; root: string }[];
  revision: string | null;
  version?: string;
} = {
  names: ['chat'],
  cards: [{ id: 'chat', root: 'meta-llama/L' }],
  revision: null,
};

function identity(known: Partial<typeof MODEL>, tokens: unknown = [1, 2]) {
  const asked: EngineCall[] = [];
  const request = (call: EngineCall) => {
    asked.push(call);
    return tokens === null ? answered('{}', 404) : answered(JSON.stringify({ tokens, count: 2 }));
  };
  const found = modelIdentity({ engine: { request }, clock: new VirtualClock() }, { ...MODEL, ...known });
  return found.then((name) => ({ name, asked }));
}

it('tells models, revisions and tokenizers apart, and not the names that they are served under', async () => {
  const { name, asked } = await identity({});
  expect(name).toMatch(/^meta-llama\/L@@[0-9a-f]{16}$/);
  expect(asked.map(({ path }) => path)).toEqual(['/tokenize']);
  const other = { names: ['else'], cards: [{ id: 'else', root: 'meta-llama/L' }] };
  expect((await identity(other)).name).toBe(name);
  const names = [
    name,
    (await identity({ revision: 'main' })).name,
    (await identity({ cards: [{ id: 'chat', root: 'meta-llama/M' }] })).name,
    (await identity({}, [1, 3])).name,
  ];
  expect(new Set(names).size).toBe(4);
});

it('goes without the tokenizer where the engine does not tell, and is none without a model', async () => {
  expect((await identity({ cards: [] }, null)).name).toBe('chat@@');
  expect((await identity({ names: [] })).name).toBeNull();
});

it('tells versions of an image apart by more than the folder that the model has in each', async () => {
  const inFolder = { cards: [{ id: 'chat', root: '/model' }] };
  expect((await identity({ ...inFolder, version: 'v1' }, null)).name).toBe('/model@v1@');
  expect((await identity({ ...inFolder, version: 'v1', revision: 'r' }, null)).name).toBe('/model@r@');
  expect((await identity(inFolder, null)).name).toBe('/model@@');
  expect((await identity({ version: 'v1' }, null)).name).toBe('meta-llama/L@@');
});
