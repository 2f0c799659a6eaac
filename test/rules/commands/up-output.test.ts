import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { LogFile, type UpTerminal, WorkerOutput } from '../../../src/commands/up-output.ts';
import { createLogger } from '../../../src/process/index.ts';

const folder = mkdtempSync(join(tmpdir(), 'up-output-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function opened(path: string) {
  const shown: string[] = [];
  const phases: string[] = [];
  const terminal = {
    write: (line: string) => void shown.push(line),
    showPhase: (phase: string) => void phases.push(phase),
  } as UpTerminal;
  const logger = createLogger('queue', { LOG_LEVEL: 'warn' }, undefined, terminal);
  return { output: new WorkerOutput(new LogFile(path), terminal, logger), shown, phases };
}

const line = (name: string, level: string, msg: string) =>
  JSON.stringify({ level, time: '2026-01-01T00:00:00.000Z', name, msg });

it('sorts what engine, worker and supervisor say', () => {
  const path = join(folder, 'worker.log');
  const { output, shown, phases } = opened(path);
  const failed = line('supervisor', 'error', 'vllm failed to start');
  output.take(line('engine', 'error', 'Traceback'));
  output.take(line('supervisor', 'info', 'engine: loading 3 of 8'));
  output.take(line('worker', 'info', 'taking jobs'));
  output.take(failed);
  output.take('Warning: not of a logger');
  expect(shown).toEqual([`${failed}\n`, 'Warning: not of a logger\n']);
  expect(phases).toEqual(['loading 3 of 8']);
  const kept = readFileSync(path, 'utf8');
  expect(kept).toMatch(/ERROR: engine: Traceback\n.*engine: loading 3 of 8\n.*taking jobs\n/);
  expect(kept).toContain('Warning: not of a logger\n');
});

it('goes on without a file that cannot be written, and says so once', () => {
  const { output, shown } = opened(join(folder, 'missing', 'worker.log'));
  output.take(line('engine', 'info', 'one'));
  output.take(line('engine', 'info', 'two'));
  expect(shown.map((text) => JSON.parse(text).msg)).toEqual([
    expect.stringMatching(/ENOENT.*worker\.log.*is not written any more/),
  ]);
});

it('puts a log that has grown long aside, and begins another one', () => {
  const path = join(folder, 'long.log');
  const log = new LogFile(path, 10);
  for (const text of ['one two three\n', 'four\n', 'five\n']) log.write(text);
  expect(readFileSync(`${path}.1`, 'utf8')).toBe('one two three\n');
  expect(readFileSync(path, 'utf8')).toBe('four\nfive\n');
});
