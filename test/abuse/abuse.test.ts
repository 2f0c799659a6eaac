import { afterAll, describe, expect, it } from 'vitest';
import { tearDown } from '../support/road.ts';
import { abuse } from './run.ts';

afterAll(tearDown);

describe('a queue that others mistreat', () => {
  it('goes on serving, takes up no more than it may, and is as before afterwards', {
    timeout: 400_000,
  }, async () => {
    const findings = await abuse('short', null, () => {});
    const faults = findings.flatMap(({ attack, faults }) => faults.map((fault) => `${attack}: ${fault}`));
    expect(faults).toEqual([]);
    expect(findings.map(({ witness }) => witness.answered).reduce((a, b) => a + b)).toBeGreaterThan(10);
  });
});
