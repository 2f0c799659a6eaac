import { expect, it } from 'vitest';
import type { Logger } from '../../../src/process/index.ts';
import { brokenOff } from '../../../src/protocol/index.ts';
import { lineLogger } from '../../../src/workerd/output.ts';

function logged() {
  const lines: string[] = [];
  const at = (level: string) => (one: unknown, two?: unknown) =>
    void lines.push(`${level}: ${typeof one === 'string' ? one : `${two} ${JSON.stringify(one)}`}`);
  const logger = { debug: () => {}, info: at('info'), warn: at('warn'), error: at('error') };
  return { lines, log: lineLogger(logger as unknown as Logger) };
}

it('logs the lines of the gateway and its objects with their level and fields', () => {
  const { lines, log } = logged();
  log('{"level":"warn","msg":"worker silent","worker_id":"w"}', 'info');
  log('{"level":"debug","msg":"small"}', 'info');
  log('{"not":"ours"}', 'info');
  expect(lines).toEqual(['warn: worker silent {"worker_id":"w"}', 'info: {"not":"ours"}']);
});

it('says once in plain words what the runtime says of a database at each request', () => {
  const { lines, log } = logged();
  for (let i = 0; i < 3; i += 1) {
    log(
      'workerd/jsg/util.c++:320: error: e = workerd/util/sqlite.c++:914: failed: SQLite failed; dbErrorMessage(prepareResult, db) = file is not a database: SQLITE_NOTADB',
      'warn',
    );
    log('stack: /bin/workerd@3c63c30 /bin/workerd@68538f0; sentryTag = SENTRY_DO', 'warn');
  }
  log(
    'workerd/jsg/util.c++:320: error: e = workerd/util/sqlite.c++:663: failed: unable to open database file: SQLITE_CANTOPEN',
    'warn',
  );
  expect(lines).toEqual([
    'error: a database of the state folder failed: file is not a database (SQLITE_NOTADB); "worker-vllm state check" names it',
    'error: a database of the state folder failed: unable to open database file (SQLITE_CANTOPEN); "worker-vllm state check" names it',
  ]);
});

it('keeps to itself what the gateway breaks off on purpose, and no other exception', () => {
  const { lines, log } = logged();
  const at =
    'workerd/server/server/listen/mod.rs:372: error: Uncaught exception: workerd/jsg/value.h:1456: failed';
  log(`${at}: remote.jsg.Error: ${brokenOff('the answer came late and is an error (503)').message}`, 'warn');
  log(`${at}: remote.jsg.TypeError: x is not a function`, 'warn');
  expect(lines).toEqual([`warn: ${at}: remote.jsg.TypeError: x is not a function`]);
});

it('keeps to itself that the runtime moved an alarm', () => {
  const { lines, log } = logged();
  log('workerd/server/alarm.c++:1: warning: NOSENTRY SQLite alarm handler canceled with requestId x', 'warn');
  expect(lines).toEqual([]);
});

it('says once that connections are refused for want of descriptors', () => {
  const { lines, log } = logged();
  const line =
    'workerd/server/server/listen/mod.rs:363: error: HTTP connection failed: dup(): Too many open files (os error 24)';
  for (let i = 0; i < 3; i += 1) log(line, 'warn');
  expect(lines).toEqual(['error: connections are refused: workerd has no file descriptor left for them']);
});
