import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { ENGINE_NAMES } from '../../../src/protocol/index.ts';
import { imageOf } from '../../../src/providers/driver.ts';

const bake = readFileSync('deploy/docker-bake.hcl', 'utf8');

it.each([
  ['vllm', 'ghcr.io/worker-vllm/worker-vllm:latest'],
  ['simulator', 'ghcr.io/worker-vllm/worker-vllm:latest'],
  ['llama-cpp', 'ghcr.io/worker-vllm/worker-vllm-llama-cpp:latest'],
])('a pool with the engine %s that names no image gets the one with it', (ENGINE, image) => {
  expect(imageOf({ image: null, env: { ENGINE } })).toBe(image);
  expect(imageOf({ image: 'mine:1', env: { ENGINE } })).toBe('mine:1');
});

it('every engine with an image of its own has a target that builds it', () => {
  const own = ENGINE_NAMES.filter((ENGINE) =>
    imageOf({ image: null, env: { ENGINE } }).endsWith(`/worker-vllm-${ENGINE}:latest`),
  );
  expect(own).toEqual(['sglang', 'llama-cpp', 'fastdeploy']);
  for (const name of own)
    expect(bake).toContain(
      `target "${name}" {\n  inherits = ["_common"]\n  tags     = tags("\${IMAGE_NAME}-${name}")`,
    );
});
