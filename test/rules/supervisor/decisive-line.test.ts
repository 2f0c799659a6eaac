import { describe, expect, it } from 'vitest';
import { describeEngine } from '../../../src/engine/kinds/index.ts';
import type { FailureKind } from '../../../src/engine/kinds/report.ts';
import { DecisiveLine } from '../../../src/supervisor/engine-run.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

const OUT_OF_MEMORY = 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.';

function watched() {
  const clock = new VirtualClock();
  const kinds: FailureKind[] = [];
  const engine = describeEngine('vllm');
  const line = new DecisiveLine({ engine, clock, onHang: ({ kind }) => kinds.push(kind) });
  return { clock, line, kinds };
}

describe('a line that says the engine cannot start', () => {
  it.each<[string, FailureKind]>([
    ['RuntimeError: CUDA driver version is insufficient for CUDA runtime version', 'bad_host'],
    ['Error 803: system has unsupported display driver / cuda driver combination', 'bad_host'],
    ['Unexpected error: forward compatibility was attempted on non supported HW', 'bad_host'],
    ['ImportError: libcuda.so.1: cannot open shared object file: No such file or directory', 'bad_host'],
    ['RuntimeError: No CUDA GPUs are available', 'bad_host'],
    ['CUDA error: no CUDA-capable device is detected', 'bad_host'],
    ['Incompatible CUDA version: 11.4', 'bad_host'],
    [`(EngineCore pid=7) ERROR 11-21 09:08:51 [core.py:1] ${OUT_OF_MEMORY}`, 'out_of_memory'],
    ['ValueError: No available memory for the cache blocks.', 'out_of_memory'],
  ])('ends one that hangs after it: %s', async (text, kind) => {
    const { clock, line, kinds } = watched();
    line.see(text);
    await clock.advance(4999);
    expect(kinds).toEqual([]);
    await clock.advance(1);
    expect(kinds).toEqual([kind]);
    await clock.advance(60_000);
    expect(kinds).toHaveLength(1);
    expect(clock.armed).toBe(0);
  });

  it.each([
    `WARNING 11-21 09:08:51 [x.py:1] ${OUT_OF_MEMORY}; trying with less`,
    'INFO 11-21 09:08:51 [x.py:1] CUDA driver version is insufficient for a feature that is not used',
    'ld: warning: libcuda.so not found, needed by triton',
    'AssertionError',
    'Starting to load model ./tiny',
  ])('is none of these: %s', async (text) => {
    const { clock, line, kinds } = watched();
    line.see(text);
    await clock.advance(60_000);
    expect(kinds).toEqual([]);
  });

  it('gives an engine that goes on talking half a minute', async () => {
    const { clock, line, kinds } = watched();
    line.see(OUT_OF_MEMORY);
    for (let second = 0; second < 29; second++) {
      await clock.advance(1000);
      line.see('Waiting for the engine process');
    }
    expect(kinds).toEqual([]);
    await clock.advance(1000);
    expect(kinds).toEqual(['out_of_memory']);
  });

  it.each(['goesOn', 'stop'] as const)('is taken back: %s', async (event) => {
    const { clock, line, kinds } = watched();
    line.see(OUT_OF_MEMORY);
    await clock.advance(4000);
    line[event]();
    await clock.advance(60_000);
    expect([kinds, clock.armed]).toEqual([[], 0]);
  });
});
