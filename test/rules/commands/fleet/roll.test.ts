import { expect, it } from 'vitest';
import { runFleetRoll } from '../../../../src/commands/fleet/control.ts';

it('worker-vllm fleet roll refuses options that exclude each other before it asks anybody', async () => {
  const target = { url: 'http://127.0.0.1:1' };
  const two = { ...target, to: '3f2a91c04b', back: true };
  await expect(runFleetRoll('chat', two)).rejects.toThrow('Give one of --to, --back, --pause and --resume');
});
