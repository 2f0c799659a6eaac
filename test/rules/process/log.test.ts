import { expect, it } from 'vitest';
import { createLogger } from '../../../src/process/index.ts';

it.each([
  [undefined, 'info'],
  ['', 'info'],
  ['WARN', 'warn'],
  ['debug', 'debug'],
])('LOG_LEVEL=%s logs from the level %s on', (given, level) => {
  expect(createLogger('x', { LOG_LEVEL: given, LOG_FORMAT: 'json' }).level).toBe(level);
});
