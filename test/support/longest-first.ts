import { basename } from 'node:path';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/**
 * Returns an order in which a tier's longest files begin first, so that none of them runs alone at the end. Vitest orders
 * by size where it has no times of an earlier run, and short files may wait long.
 * @param names of the files without `.test.ts`, the longest first
 */
export function longestFirst(...names: string[]): typeof BaseSequencer {
  const placeOf = ({ moduleId }: TestSpecification) => {
    const at = names.indexOf(basename(moduleId, '.test.ts'));
    return at === -1 ? names.length : at;
  };
  return class extends BaseSequencer {
    override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
      return (await super.sort(files)).toSorted((a, b) => placeOf(a) - placeOf(b));
    }
  };
}
