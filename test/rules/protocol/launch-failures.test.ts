import { describe, expect, it } from 'vitest';
import { causeIn, failureAndCause } from '../../../src/protocol/index.ts';

const LOG = `[23:13:23.688] INFO: supervisor: starting simulator with new-model
[23:13:23.911] INFO: engine: vllm serve: error: unrecognized arguments: --no-such-flag 3
[23:13:23.914] ERROR: supervisor: simulator failed to start: the engine does not know the argument --no-such-flag 3.
The end of its log:
  | vllm serve: error: unrecognized arguments: --no-such-flag 3
[23:13:24.009] ERROR: worker: the engine is gone; the worker ends {"problem":"simulator failed to start"}
[23:13:24.070] INFO: worker: worker ended {"exit_code":2}`;

describe('why a launch failed', () => {
  it.each([
    [
      'a log of ours',
      LOG,
      'simulator failed to start: the engine does not know the argument --no-such-flag 3',
    ],
    [
      'what an error tells beside it',
      '[1:2.3] ERROR: worker: no queue {"a":1}\n[1:2.4] INFO: a: b',
      'no queue',
    ],
    [
      'a log of ours as JSON',
      '{"level":30,"msg":"a"}\n{"level":50,"msg":"no model\\nmore"}\n{"level":30}',
      'no model',
    ],
    ['a log of others', 'Traceback:\n  File "x"\nValueError: no such model.\n', 'ValueError: no such model'],
    ['a sentence of a provider', 'There is no balance left.', 'There is no balance left'],
    ['nothing', '', ''],
    ['a long line', 'x'.repeat(400), `${'x'.repeat(300)}…`],
  ])('is one line: %s', (_what, detail, cause) => {
    expect(causeIn(detail)).toBe(cause);
  });

  it('is said with its exit code', () => {
    const failed = { cause: 'exited' as const, exit_code: 2, detail: LOG };
    expect(failureAndCause(failed)).toMatch(
      /^its worker ended with exit code 2: simulator failed to start: [^\n]*$/,
    );
    expect(failureAndCause({ ...failed, detail: null })).toBe('its worker ended with exit code 2');
  });
});
