import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

/** `npm run move`, in a repository of its own. */
const SCRIPT = join(import.meta.dirname, '../../../scripts/move.ts');
let root: string;

const git = (...args: string[]) => execFileSync('git', args, { cwd: root, encoding: 'utf8' });
const read = (path: string) => readFileSync(join(root, path), 'utf8');
const move = (from: string, to: string) => {
  const { status, stdout, stderr } = spawnSync(process.execPath, [SCRIPT, from, to], {
    cwd: root,
    encoding: 'utf8',
  });
  return { status, stdout, stderr };
};

function write(path: string, text: string): void {
  mkdirSync(dirname(join(root, path)), { recursive: true });
  writeFileSync(join(root, path), text);
}

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'move-'));
  git('init', '--quiet');
  write(
    'src/shop/rules/price.ts',
    `import { round } from '../../base/round.ts';\nimport type { Cart } from './cart.ts';\n`,
  );
  write('src/shop/rules/cart.ts', `const table = new URL('./table.json', import.meta.url);\n`);
  write('src/shop/rules/table.json', '{}\n');
  write(
    'src/base/round.ts',
    '/** Rounds what shop/rules/price.ts and `price.ts` ask for, never shop/rules/price.tsx. */\n',
  );
  write('src/app.ts', `import './shop/rules/price.ts';\nconst later = import('./shop/rules/cart.ts');\n`);
  write(
    'test/rules/price.test.ts',
    `vi.mock('../../src/shop/rules/price.ts');\nconst root = join(import.meta.dirname, '../..');\nconst up = '../..';\n`,
  );
  write(
    'docs/rooms.md',
    '| `shop/` | sells: `shop/rules/price.ts` | base |\n| `tills/` | pays | base, shop |\n',
  );
  write(
    'docs/more.md',
    'See [the price](../src/shop/rules/price.ts) in `src/shop/rules/`, `price.ts` or `shop/`, not a workshop/.\n',
  );
  write('Dockerfile', 'COPY src/shop/rules/price.ts src/shop/rules/price.ts.gz ./src/\n');
  write(
    'scripts/tsconfig.json',
    '{ "include": ["../src/shop"], "exclude": ["../src/shop/rules/price.ts"] }\n',
  );
  git('add', '.');
  git('-c', 'user.name=t', '-c', 'user.email=t@example.org', 'commit', '--quiet', '-m', 'first');
});
afterEach(() => rmSync(root, { recursive: true }));

describe('npm run move', () => {
  it('moves a file with all that names it', () => {
    const { stdout, status } = move('src/shop/rules/price.ts', 'src/shop/cost.ts');
    expect(status).toBe(0);
    expect(stdout).toContain('src/shop/rules/price.ts -> src/shop/cost.ts\n');
    expect(stdout).toContain('  docs/more.md: 1 line\n');
    expect(read('src/shop/cost.ts')).toBe(
      `import { round } from '../base/round.ts';\nimport type { Cart } from './rules/cart.ts';\n`,
    );
    expect(read('src/app.ts')).toBe(
      `import './shop/cost.ts';\nconst later = import('./shop/rules/cart.ts');\n`,
    );
    expect(read('src/base/round.ts')).toBe(
      '/** Rounds what shop/cost.ts and `cost.ts` ask for, never shop/rules/price.tsx. */\n',
    );
    expect(read('test/rules/price.test.ts')).toContain(`vi.mock('../../src/shop/cost.ts');`);
    expect(read('docs/rooms.md')).toContain('sells: `shop/cost.ts`');
    expect(read('docs/more.md')).toContain(
      '[the price](../src/shop/cost.ts) in `src/shop/rules/`, `cost.ts`',
    );
    expect(read('Dockerfile')).toBe('COPY src/shop/cost.ts src/shop/rules/price.ts.gz ./src/\n');
    expect(read('scripts/tsconfig.json')).toContain('["../src/shop/cost.ts"]');
    expect(git('diff', '--name-only')).toBe('');
  });

  it('moves a folder, whose files keep their ways to each other', () => {
    expect(move('src/shop', 'src/trade/shop').status).toBe(0);
    expect(read('src/trade/shop/rules/price.ts')).toBe(
      `import { round } from '../../../base/round.ts';\nimport type { Cart } from './cart.ts';\n`,
    );
    expect(read('src/trade/shop/rules/cart.ts')).toContain(`'./table.json'`);
    expect(read('src/app.ts')).toContain(`import './trade/shop/rules/price.ts'`);
    expect(read('docs/rooms.md')).toBe(
      '| `trade/shop/` | sells: `trade/shop/rules/price.ts` | base |\n| `tills/` | pays | base, `trade/shop` |\n',
    );
    expect(read('docs/more.md')).toContain(
      '`src/trade/shop/rules/`, `price.ts` or `trade/shop/`, not a workshop/',
    );
    expect(read('scripts/tsconfig.json')).toContain('["../src/trade/shop"]');
    expect(existsSync(join(root, 'src/shop'))).toBe(false);
  });

  it('keeps the way from a test to the root, and other texts of dots', () => {
    expect(move('test/rules/price.test.ts', 'test/rules/shop/price.test.ts').status).toBe(0);
    expect(read('test/rules/shop/price.test.ts')).toBe(
      `vi.mock('../../../src/shop/rules/price.ts');\nconst root = join(import.meta.dirname, '../../..');\nconst up = '../..';\n`,
    );
  });

  it('moves one file after the other without a commit between', () => {
    expect(move('src/shop/rules/price.ts', 'src/shop/cost.ts').status).toBe(0);
    expect(move('src/shop/rules/cart.ts', 'src/shop/basket.ts').status).toBe(0);
    expect(read('src/shop/cost.ts')).toContain(`from './basket.ts'`);
    expect(read('src/shop/basket.ts')).toContain(`new URL('./rules/table.json', import.meta.url)`);
  });

  it.each([
    ['src/shop/rules/price.ts', 'src/shop/rules/cart.ts', 'src/shop/rules/cart.ts is there already.'],
    [
      'src/shop/rules/price.ts',
      'src/shop/rules/dirty.ts',
      'src/shop/rules/price.ts has changes that are not staged.',
    ],
    [
      'src/shop/rules/cart.ts',
      'src/shop/cart.ts',
      'src/shop/rules/price.ts names src/shop/rules/cart.ts and has changes',
    ],
    ['src/nothing.ts', 'src/something.ts', 'git knows no src/nothing.ts.'],
    ['docs/more.md', 'docs/less.md', 'docs/more.md is not in src, test, scripts or bench.'],
    ['src/shop', 'src/shop/more', 'src/shop/more would be within itself.'],
  ])('moves nothing from %s to %s', (from, to, message) => {
    write('src/shop/rules/price.ts', `${read('src/shop/rules/price.ts')}\n// changed\n`);
    const before = git('status', '--porcelain');
    const { status, stderr } = move(from, to);
    expect(stderr).toContain(message);
    expect(status).toBe(2);
    expect(git('status', '--porcelain')).toBe(before);
  });
});
