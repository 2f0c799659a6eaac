import { expect, it } from 'vitest';
import { seenAtWork } from '../../support/seen-at-work.ts';

it('begins what was over before it was seen again, and returns the one that was seen', async () => {
  let begun = 0;
  const begin = async () => {
    begun += 1;
    const nth = begun;
    return { nth, howOver: () => (nth < 3 ? 'succeeded' : null) };
  };
  const { nth } = await seenAtWork(begin, ({ nth }) => nth === 3, 'it runs');
  expect([nth, begun]).toEqual([3, 3]);
});

it('does not begin again what ends while it is seen', async () => {
  let begun = 0;
  const begin = async () => {
    begun += 1;
    return { howOver: () => 'succeeded' };
  };
  await seenAtWork(begin, () => true, 'it runs');
  expect(begun).toBe(1);
});

it('says of what is never seen how the last one ended', async () => {
  const failing = seenAtWork(
    async () => ({ howOver: () => 'failed: no such model' }),
    () => false,
    'it runs',
    { timeoutMs: 50 },
  );
  await expect(failing).rejects.toThrow(
    /^waited \d+ ms until it runs; \d+ were over before they were seen, the last one: failed: no such model/,
  );
});

it('passes on why it is refused', async () => {
  const refused = seenAtWork(
    async () => {
      throw new Error('refused: 503 busy');
    },
    () => true,
    'it runs',
  );
  await expect(refused).rejects.toThrow('refused: 503 busy');
});
