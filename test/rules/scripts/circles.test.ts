import { describe, expect, it } from 'vitest';
import { circlesOfRooms, type RoomImport, roomImports } from '../../../scripts/circles.ts';

/** Rooms that import each other in a circle, though no two of their files do. */
const imports = (...pairs: [from: string, to: string][]): RoomImport[] =>
  pairs.map(([from, to]) => ({ from: `src/${from}.ts`, to: `src/${to}.ts` }));

const ACYCLIC = imports(['shop/sell', 'stock/rows'], ['shop/sell', 'base/text'], ['stock/rows', 'base/text']);

describe('circles of rooms', () => {
  it('are none where each room imports only rooms below it', () => {
    expect(circlesOfRooms(ACYCLIC)).toEqual([]);
  });

  it('are told once, by an import for each step of the shortest way', () => {
    const back = imports(
      ['base/log', 'till/coins'],
      ['till/coins', 'shop/price'],
      ['base/text', 'stock/names'],
    );
    expect(circlesOfRooms([...ACYCLIC, ...back])).toEqual([
      imports(['base/text', 'stock/names'], ['stock/rows', 'base/text']),
      imports(['shop/sell', 'base/text'], ['base/log', 'till/coins'], ['till/coins', 'shop/price']),
    ]);
  });

  it('do not come of types, of files within a room, or of what lies outside of src', () => {
    const dependency = (resolved: string, ...dependencyTypes: string[]) => ({ resolved, dependencyTypes });
    const dependencies = [
      dependency('src/stock/rows.ts', 'local', 'import'),
      dependency('src/base/text.ts', 'local', 'import', 'type-only'),
      dependency('src/shop/price.ts', 'local', 'import'),
      dependency('src/app.ts', 'local', 'import'),
      dependency('node_modules/zod/index.js', 'npm'),
    ];
    const modules = [
      { source: 'src/shop/sell.ts', dependencies },
      { source: 'test/shop.test.ts', dependencies },
    ];
    expect(roomImports(modules)).toEqual(imports(['shop/sell', 'stock/rows']));
  });
});
