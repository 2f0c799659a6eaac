import { describe, expect, test } from 'vitest';
import { prefillFlags } from '../../../src/engine/command/default-flags.ts';
import { readWorkerConfiguration } from '../../../src/worker/configuration.ts';

const URL = 'http://10.0.0.5:8100';

describe('what an engine is told of another one that prefills', () => {
  test('nothing without one', () => {
    expect(prefillFlags({ readsPrefilled: true }, {}).arguments).toEqual([]);
    expect(prefillFlags({ readsPrefilled: true }, { ENGINE_PREFILL_URL: ' ' }).arguments).toEqual([]);
  });

  test('to read its cache, and to compute what it cannot read', () => {
    const [argument] = prefillFlags({ readsPrefilled: true }, { ENGINE_PREFILL_URL: URL }).arguments;
    const [flag, config] = argument!.words;
    expect(flag).toBe('--kv-transfer-config');
    expect(JSON.parse(config!)).toMatchObject({
      kv_connector: 'NixlConnector',
      kv_load_failure_policy: 'recompute',
    });
  });
});

describe('ENGINE_PREFILL_URL', () => {
  const read = (env: NodeJS.ProcessEnv) =>
    readWorkerConfiguration({ CASOLA_WS_URL: 'ws://q', CASOLA_CONFIG_ID: 'cfg', VLLM_MODEL: 'm', ...env })
      .engine.prefillUrl;

  test('is where the prefill engine listens', () => {
    expect([read({}), read({ ENGINE_PREFILL_URL: URL })]).toEqual([null, URL]);
  });

  test.each([
    [{ ENGINE_PREFILL_URL: '10.0.0.5' }, /ENGINE_PREFILL_URL/],
    [{ ENGINE_PREFILL_URL: URL, ENGINE: 'fastdeploy' }, /FastDeploy reads no cache of another engine/],
  ])('that is wrong is told: %j', (env, message) => {
    expect(() => read(env)).toThrow(message);
  });
});
