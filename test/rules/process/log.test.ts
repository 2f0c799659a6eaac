import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, constants, mkdtempSync, openSync, rmSync } from 'node:fs';
import { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { createLogger, prettyLines } from '../../../src/process/index.ts';
import { isPlain } from '../../../src/protocol/index.ts';
import { until } from '../../support/poll.ts';

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

/** A pipe as shells and Docker make them; Node's own to its children are sockets. @returns its reading end */
function startWithPipe(script: string) {
  const folder = mkdtempSync(join(tmpdir(), 'log-pipe-'));
  const path = join(folder, 'pipe');
  spawnSync('mkfifo', [path]);
  const reading = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  const writing = openSync(path, 'w');
  const child = spawn(process.execPath, ['--input-type=module', '--eval', script], {
    stdio: ['ignore', writing, 'pipe'],
  });
  closeSync(writing);
  rmSync(folder, { recursive: true });
  return { child, reading };
}

const LOGGER = `
  import { createLogger } from '${new URL('../../../src/process/index.ts', import.meta.url)}';
  const log = createLogger('x', { LOG_FORMAT: 'json' });`;

it('a log in a pipe that nobody reads holds nobody up, and goes on when it is read', async () => {
  const { child, reading } = startWithPipe(`${LOGGER}
    process.on('SIGTERM', () => { log.info('heard'); process.stderr.write('heard'); });
    process.on('SIGINT', () => process.exit(3));
    setInterval(() => {}, 1000);
    for (let line = 0; line < 300; line++) log.info({ line }, 'x'.repeat(1000));
    process.stderr.write('went on');`);
  const said = async () => String((await once(child.stderr!, 'data'))[0]);
  expect(await said()).toBe('went on');
  child.kill('SIGTERM');
  expect(await said()).toBe('heard');
  let text = '';
  new Socket({ fd: reading, readable: true }).setEncoding('utf8').on('data', (part) => {
    text += part;
  });
  await until(() => text.includes('"heard"'), 'the last line is read');
  const lines = text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { line?: number });
  expect(lines.map(({ line }) => line)).toEqual([
    ...Array.from({ length: 300 }, (_, line) => line),
    undefined,
  ]);
  child.kill('SIGINT');
  expect(await once(child, 'exit')).toEqual([3, null]);
});

it('a process ends though nobody reads what it said last', async () => {
  const { child, reading } = startWithPipe(`${LOGGER}
    for (let line = 0; line < 300; line++) log.info('x'.repeat(1000));
    process.exit(3);`);
  expect(await once(child, 'exit')).toEqual([3, null]);
  closeSync(reading);
});

it.each([true, false])('a line for people holds no sequence of its message (colours: %s)', (colorize) => {
  const odd = {
    level: 'info',
    time: '2026-01-01T00:00:00Z',
    name: 'x',
    msg: '\u001b[2J\u009b\u202e',
    of: '\u009b',
  };
  const shown = prettyLines(colorize)(JSON.stringify(odd));
  // biome-ignore lint/suspicious/noControlCharactersInRegex: colours begin with it
  expect(isPlain(shown.replaceAll(/\u001b\[\d+m|\n/g, ''))).toBe(true);
  expect(shown).toContain('\\u001b[2J');
});
