import { expect, it } from 'vitest';
import { freeBytes } from '../../../src/durable/free-bytes.ts';

it('frees bytes that have a buffer to themselves', () => {
  const bytes = new Uint8Array(100_000);
  freeBytes(bytes);
  expect(bytes.byteLength).toBe(0);
});

it('leaves a part of a buffer alone, whose rest may be somebody else’s', () => {
  const pool = new Uint8Array(100_000).fill(1);
  freeBytes(pool.subarray(0, 50_000));
  expect(pool.every((byte) => byte === 1)).toBe(true);
  expect(pool).toHaveLength(100_000);
});

it('leaves short bytes to the collector', () => {
  const bytes = new Uint8Array(100);
  freeBytes(bytes);
  expect(bytes).toHaveLength(100);
});
