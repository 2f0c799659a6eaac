import { rmSync } from 'node:fs';
import { afterEach, describe, expect, it } from 'vitest';
import { checkGpus, GPU_QUERY, parseGpus, reasonNotToCheck } from '../../../src/engine/machine/gpu-check.ts';
import { nvidiaSmi } from '../../../src/engine/machine/gpus.ts';
import { gpuLine, printing, standInNvidiaSmi } from '../../support/nvidia-smi.ts';

const SECOND = 'GPU-8d1b2c3d-0000-4b1b-8f8e-5a1c0d2e7a22';
const H100 = gpuLine();
const T4 = '1, GPU-8d1b2c3d-0000-4b1b-8f8e-5a1c0d2e7a22, 15360, 0, 0, 0, 70.00, 70.00, Tesla T4';
/** A card of a gamer: no ECC, and where the driver is old, other words for it. */
const GEFORCE =
  '0, GPU-11111111-2222-3333-4444-555555555555, 24564, 10, 0, [N/A], 450.00, 450.00, NVIDIA GeForce RTX 4090';
/** Memory shared with the processor: next to nothing can be told. */
const UNIFIED = '0, GPU-aaaa, [N/A], [Not Supported], [N/A], [N/A], [N/A], [N/A], NVIDIA GB10';

const check = (lines: string[], visible?: string, expected = {}) =>
  checkGpus(parseGpus(lines.join('\n')), visible, expected);

describe('what nvidia-smi says of GPUs', () => {
  it('is read field by field, with nothing where it cannot tell', () => {
    expect(parseGpus(`${H100}\n${GEFORCE}\n`)).toEqual([
      {
        index: 0,
        uuid: 'GPU-3f0f6b5c-9d0e-4b1b-8f8e-5a1c0d2e7a11',
        name: 'NVIDIA H100 80GB HBM3',
        memoryTotalMib: 81_559,
        memoryUsedMib: 1,
        utilisation: 0,
        uncorrectedErrors: 0,
        powerLimitWatts: 700,
        defaultPowerLimitWatts: 700,
        needsReset: false,
      },
      expect.objectContaining({ name: 'NVIDIA GeForce RTX 4090', uncorrectedErrors: null }),
    ]);
  });

  it('is asked for in the order in which it is read', () => {
    expect(GPU_QUERY[0]?.split(',')).toHaveLength(H100.split(',').length);
  });

  it('may stand among warnings, and have a comma in a name', () => {
    const output = `WARNING: infoROM is corrupted at gpu 0000:00:1E.0\n${gpuLine({ name: 'Quadro, old' })}\n\n`;
    expect(parseGpus(output)).toEqual([expect.objectContaining({ name: 'Quadro, old', index: 0 })]);
  });
});

describe('GPUs are fit for an engine', () => {
  it.each([
    ['idle and healthy', [H100], {}],
    ['without the values that their kind does not have', [GEFORCE], { vramGb: 24 }],
    ['with nothing but a name', [UNIFIED], { name: 'gb10', vramGb: 128 }],
    ['of the expected kind, in any case', [H100], { name: 'NVIDIA h100', vramGb: 80 }],
    ['just under each limit', [gpuLine({ used: '499', busy: '9', limit: '490.00' })], {}],
    ['with nine tenths of the expected memory, since vendors round', [T4], { vramGb: 16 }],
  ])('when %s', (_, lines, expected) => {
    expect(check(lines, undefined, expected)).toEqual([]);
  });
});

describe('a GPU is not fit for an engine, and the finding says why and what to do,', () => {
  it.each([
    ['of another kind', H100, { name: 'A100' }, /CASOLA_EXPECTED_GPU_NAME="A100" in its name/],
    [
      'with too little memory',
      T4,
      { vramGb: 24 },
      /15360 MiB of memory, expected 22119 MiB at least \(90 % of/,
    ],
    ['in use', gpuLine({ used: '500' }), {}, /500 MiB already in use, expected under 500 MiB: end what uses/],
    ['busy', gpuLine({ busy: '10' }), {}, /10 % busy, expected under 10 %/],
    ['with memory errors', gpuLine({ ecc: '2' }), {}, /ECC errors: 2, expected none: reset or replace it/],
    [
      'throttled',
      gpuLine({ limit: '489.00' }),
      {},
      /489 W, expected 70 % .* 700 W at least: raise it .*-pl 700/,
    ],
    ['given up by the driver', gpuLine({ busy: '[GPU requires reset]' }), {}, /given it up: reset it/],
  ])('when %s', (_, line, expected, finding) => {
    const found = check([line], undefined, expected);
    expect(found).toEqual([expect.stringMatching(finding)]);
    expect(found[0]).toMatch(/^GPU [01] \((?:NVIDIA H100|Tesla T4)/);
  });

  it('and everything wrong with every GPU is told at once', () => {
    const found = check([gpuLine({ used: '900', busy: '77' }), T4], undefined, { vramGb: 80 });
    expect(found.map((finding) => finding.slice(0, 20))).toEqual([
      'GPU 0 (NVIDIA H100 8',
      'GPU 0 (NVIDIA H100 8',
      'GPU 1 (Tesla T4): 15',
    ]);
  });

  it('when there is none', () => {
    expect(check(['No devices were found'])).toEqual([expect.stringContaining('lists no GPU')]);
  });
});

describe('CUDA_VISIBLE_DEVICES', () => {
  const lines = [gpuLine({ used: '900' }), T4];
  it.each([
    ['1', []],
    ['0', ['GPU 0']],
    ['1,0', ['GPU 0']],
    ['1,-1,0', []],
    [SECOND, []],
    ['GPU-8d1b', []],
    ['GPU-3f0f6b5c', ['GPU 0']],
  ])('%s leaves the other GPUs out', (visible, found) => {
    expect(check(lines, visible).map((finding) => finding.slice(0, 5))).toEqual(found);
  });

  it('that names a GPU which is not there is told', () => {
    expect(check(lines, '1,2')).toEqual([expect.stringMatching(/names 2, but nvidia-smi lists only 0, 1/)]);
  });

  it.each(['', '-1', 'none', 'MIG-5f0f6b5c', 'MIG-GPU-3f0f6b5c/1/0'])(
    '%j leaves nothing that could be checked',
    (visible) => {
      expect(reasonNotToCheck(visible)).not.toBeNull();
    },
  );

  it.each([undefined, '0', '0,1', 'GPU-3f0f'])('%j leaves GPUs to check', (visible) => {
    expect(reasonNotToCheck(visible)).toBeNull();
  });
});

describe('nvidia-smi', () => {
  const folders: string[] = [];
  afterEach(() => {
    for (const folder of folders.splice(0)) rmSync(folder, { recursive: true });
  });
  const ask = (script: string, limitMs = 30_000, signal?: AbortSignal) => {
    folders.push(standInNvidiaSmi(script));
    const env = { PATH: `${folders.at(-1)}:${process.env.PATH}` };
    return nvidiaSmi({ args: GPU_QUERY, env, limitMs, ...(signal ? { signal } : {}) });
  };

  it('answers', async () => {
    expect(await ask(printing(H100))).toEqual({ case: 'answered', output: `${H100}\n` });
  });

  it('that fails is told with its words and its exit code', async () => {
    const answer = await ask('echo "NVIDIA-SMI has failed because\n of the driver."; exit 9');
    expect(answer).toEqual({
      case: 'failed',
      problem: 'nvidia-smi failed (exit code 9): NVIDIA-SMI has failed because of the driver.',
    });
  });

  it('that hangs, deaf to signals and with a child that holds its output, is not waited for', async () => {
    const answer = await ask('trap "" TERM\nsleep 60 & sleep 60', 200);
    expect(answer).toEqual({ case: 'failed', problem: 'nvidia-smi gave no answer in 0.2 s' });
  });

  it('is ended when nobody needs its answer any more', async () => {
    const stopped = new AbortController();
    const answer = ask('sleep 60', 30_000, stopped.signal);
    stopped.abort();
    expect(await answer).toEqual({ case: 'failed', problem: 'nvidia-smi was stopped' });
  });

  it('that is not there is told apart from one that fails', async () => {
    const asked = { args: ['-L'], env: { PATH: '/nowhere' }, limitMs: 30_000 };
    expect(await nvidiaSmi(asked)).toEqual({ case: 'absent' });
  });
});
