import { expect, test } from 'vitest';
import { gpuCollector, readGpus } from '../../../src/worker/telemetry/readings.ts';
import { printingGpus, standInNvidiaSmi } from '../../support/nvidia-smi.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

test('every GPU is read, and what nvidia-smi does not know is left out', () => {
  const csv = [
    '1024, 24576, 37, 61, 412.50, NVIDIA H100, 80GB',
    'warning: infoROM is corrupted',
    '5, 24576, [N/A], [Not Supported], [Unknown Error], Tesla T4',
    '6, 24576, 0, 31, 70, [N/A]',
    '',
  ];
  expect(readGpus(csv.join('\n'))).toEqual([
    {
      name: 'NVIDIA H100, 80GB',
      memory_used_bytes: 1024 * 2 ** 20,
      memory_total_bytes: 24576 * 2 ** 20,
      utilization: 0.37,
      temperature_celsius: 61,
      power_watts: 412.5,
    },
    { name: 'Tesla T4', memory_used_bytes: 5 * 2 ** 20, memory_total_bytes: 24576 * 2 ** 20 },
    {
      memory_used_bytes: 6 * 2 ** 20,
      memory_total_bytes: 24576 * 2 ** 20,
      utilization: 0,
      temperature_celsius: 31,
      power_watts: 70,
    },
  ]);
  expect(readGpus('')).toEqual([]);
});

test('the GPUs that are visible are asked for, and none where none is', async () => {
  const [some, all] = [printingGpus({ name: 'three' }, { name: 'one' }), printingGpus({ name: 'zero' })];
  const script = `case "$*" in *--id=3,1*) ${some} ;; *) ${all} ;; esac`;
  const PATH = `${standInNvidiaSmi(script)}:${process.env.PATH}`;
  const names = async (visible?: string) => {
    const env = { PATH, ...(visible === undefined ? {} : { CUDA_VISIBLE_DEVICES: visible }) };
    return (await gpuCollector(env, new VirtualClock())()).map(({ name }) => name);
  };
  expect(await names()).toEqual(['zero']);
  expect(await names('3,1')).toEqual(['three', 'one']);
  expect(await names('-1')).toEqual([]);
  expect(await names('MIG-1')).toEqual([]);
  expect(await gpuCollector({ PATH: '/nowhere' }, new VirtualClock())()).toEqual([]);
});

test('questions soon after each other are one call of nvidia-smi', async () => {
  const PATH = `${standInNvidiaSmi(printingGpus({ name: '$$' }))}:${process.env.PATH}`;
  const clock = new VirtualClock();
  const read = gpuCollector({ PATH }, clock);
  const [first, second] = await Promise.all([read(), read()]);
  expect(first).toEqual(second);
  await clock.advance(2000);
  expect(await read()).not.toEqual(first);
});
