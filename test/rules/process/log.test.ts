import { spawnSync } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { afterAll, expect, it } from 'vitest';
import { createLogger } from '../../../src/process/index.ts';

it.each([
  [undefined, 'info'],
  ['', 'info'],
  ['WARN', 'warn'],
  ['debug', 'debug'],
])('LOG_LEVEL=%s logs from the level %s on', (given, level) => {
  expect(createLogger('x', { LOG_LEVEL: given, LOG_FORMAT: 'json' }).level).toBe(level);
});

/** A device whose every write fails for want of space. */
const full = openSync('/dev/full', 'w');
afterAll(() => closeSync(full));

it.each(['json', 'pretty'])('a log in a file on a full disk (%s) ends nobody', (format) => {
  const script = `
    import { createLogger } from '${new URL('../../../src/process/index.ts', import.meta.url)}';
    const log = createLogger('x', { LOG_FORMAT: '${format}' });
    for (let line = 0; line < 2000; line++) log.info('x'.repeat(1000));
    process.stderr.write('went on');
    process.exit(3);`;
  const { status, stderr } = spawnSync(process.execPath, ['--input-type=module', '--eval', script], {
    stdio: ['ignore', full, 'pipe'],
    encoding: 'utf8',
  });
  expect(stderr).toBe('went on');
  expect(status).toBe(3);
});
