import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { programArguments } from '../../../src/process/package.ts';

const TESTS = fileURLToPath(new URL('../../', import.meta.url));
/** What is tested there is what ships. */
const ROADS = ['browser', 'clients', 'cloudflare', 'package', 'road', 'soak', 'abuse', 'support', 'vllm'];
/** A path of a source in a string that is no import: the entry of a process. */
const SOURCE_PROGRAM = /^(?!import |\} from ).*['"`][^'"`]*\bsrc\/(?:cli|\w+\/main)\.ts['"`]/m;

it.each(['supervisor', 'worker', 'simulator'] as const)('starts the bundle of the %s', (name) => {
  const program = programArguments(name).at(-1)!;
  expect(program).toMatch(/dist\/programs\/\w+\.js$/);
  expect(existsSync(program)).toBe(true);
});

it('no test of a road runs a program from its sources', () => {
  const files = ROADS.flatMap((folder) => {
    const path = join(TESTS, folder);
    if (!existsSync(path)) return [];
    return readdirSync(path, { recursive: true, encoding: 'utf8' }).map((name) => join(folder, name));
  });
  const tests = files.filter((name) => name.endsWith('.ts'));
  expect(tests.length).toBeGreaterThan(50);
  expect(tests.filter((name) => SOURCE_PROGRAM.test(readFileSync(join(TESTS, name), 'utf8')))).toEqual([
    // A checkout whose sources are edited, to see that the bundles follow.
    'road/checkout.test.ts',
  ]);
});
