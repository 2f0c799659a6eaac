import { expect, test } from 'vitest';
import { misspeltVariables } from '../../../src/commands/misspelt-variables.ts';

test.each([
  ['VLLM_MODLE', 'VLLM_MODEL'],
  ['QUEUE_PROT', 'QUEUE_PORT'],
  ['ENGINE_ULR', 'ENGINE_URL'],
  ['CASOLA_MAX_JOB', 'CASOLA_MAX_JOBS'],
  ['QUEUE_MAX_BODY_BYTE', 'QUEUE_MAX_BODY_BYTES'],
  ['QUEUE_ULR', 'QUEUE_URL'],
  ['GATEWAY_TOKN', 'GATEWAY_TOKEN'],
])('%s was meant for %s', (name, meant) => {
  expect(misspeltVariables({ [name]: 'x' })).toEqual([
    `${name} is ignored: there is no such variable; did you mean ${meant}?`,
  ]);
});

test.each([
  ...['VLLM_MODEL', 'QUEUE_URL', 'ENGINE_URL', 'CASOLA_WS_URL'],
  // vLLM's own, of the 300 that it has those that are nearest to ours.
  ...['VLLM_PORT', 'VLLM_HOST_IP', 'VLLM_LOGGING_LEVEL', 'VLLM_USE_MODELSCOPE', 'VLLM_API_KEY'],
  // What platforms and Kubernetes set.
  ...['QUEUE_SERVICE_PORT', 'QUEUE_PORT_8788_TCP', 'CASOLA_REGION', 'WORKER_ID', 'MODEL_NAME', 'PATH'],
])('nothing is said of %s', (name) => {
  expect(misspeltVariables({ [name]: 'x' })).toEqual([]);
});

test('nor of one that is empty', () => {
  expect(misspeltVariables({ VLLM_MODLE: '' })).toEqual([]);
});
