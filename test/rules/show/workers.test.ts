import { describe, expect, it } from 'vitest';
import { gpuTotals, shortGpuName } from '../../../src/show/workers.ts';

describe('GPUs on the page', () => {
  it.each([
    ['NVIDIA H100 80GB HBM3', 'H100'],
    ['NVIDIA A100-SXM4-80GB', 'A100'],
    ['NVIDIA A100-PCIE-40GB', 'A100'],
    ['NVIDIA GeForce RTX 4090', 'RTX 4090'],
    ['NVIDIA RTX 6000 Ada Generation', 'RTX 6000 Ada Generation'],
    ['Tesla T4', 'T4'],
    ['NVIDIA L4', 'L4'],
    ['AMD Instinct MI300X', 'MI300X'],
  ])('are called what people call them: %s', (name, short) => {
    expect(shortGpuName(name)).toBe(short);
  });

  it('are told together: memory and power added, the mean, the highest temperature', () => {
    const gpu = { name: 'NVIDIA L4', memory_used_bytes: 10e9, memory_total_bytes: 24e9, power_watts: 70 };
    const gpus = [
      { ...gpu, utilization: 0.5, temperature_celsius: 60 },
      { ...gpu, utilization: 0.7, temperature_celsius: 71 },
    ];
    expect(gpuTotals(gpus)).toEqual({
      name: 'L4 ×2',
      memoryUsed: 20e9,
      memoryTotal: 48e9,
      utilization: 0.6,
      temperature: 71,
      power: 140,
    });
  });

  it('leave unknown what none of them tells, even if one tells it wrongly as nothing', () => {
    expect(gpuTotals([])).toEqual({
      name: null,
      memoryUsed: null,
      memoryTotal: null,
      utilization: null,
      temperature: null,
      power: null,
    });
    expect(gpuTotals([{ name: 'NVIDIA L4' }, { utilization: 0.4 }]).utilization).toBe(0.4);
  });
});
