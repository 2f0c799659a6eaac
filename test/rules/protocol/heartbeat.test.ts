import { expect, it } from 'vitest';
import { Heartbeat } from '../../../src/protocol/index.ts';

it('has no time that a date cannot hold: one would end the page of whoever looks', () => {
  const beat = (created_ms: number) => ({ instance_id: 'w', status: 'starting', start: { created_ms } });
  expect(Heartbeat.safeParse(beat(8.64e15)).success).toBe(true);
  expect(Heartbeat.safeParse(beat(8.64e15 + 1)).success).toBe(false);
});
