import { describe, expect, it } from 'vitest';
import { flagCandidates } from '../../../src/engine/command/flag-arguments.ts';
import { settleEnvironment } from '../../../src/engine/command/flag-names.ts';

describe('familiar names and baked images', () => {
  const FILE = '/local_model_args.json';
  const settle = (env: NodeJS.ProcessEnv, baked = {}, exists = false) =>
    settleEnvironment(env, baked, FILE, () => exists);
  const BAKED = { MODEL_NAME: '/models/a', OPENAI_SERVED_MODEL_NAME_OVERRIDE: 'org/a', QUANTIZATION: 'awq' };

  it('are read in our names, and remembered', () => {
    const { env, origins } = settle({
      ...{ MODEL_NAME: 'org/m', MODEL_REVISION: 'r', TOKENIZER_NAME: 't', CUSTOM_CHAT_TEMPLATE: '{{ x }}\n' },
      ...{
        OPENAI_SERVED_MODEL_NAME_OVERRIDE: 's',
        MAX_MODEL_LENGTH: '1',
        VLLM_CONFIG_FILE: 'f',
        MAX_CONCURRENCY: '9',
        OPENAI_RESPONSE_ROLE: 'model',
      },
    });
    expect(env).toMatchObject({
      ...{ VLLM_MODEL: 'org/m', REVISION: 'r', TOKENIZER: 't', CHAT_TEMPLATE: '{{ x }}\n' },
      ...{ SERVED_MODEL_NAME: 's', MAX_MODEL_LEN: '1', CONFIG: 'f', CASOLA_MAX_JOBS: '9' },
      RESPONSE_ROLE: 'model',
    });
    expect(origins.get('MAX_MODEL_LEN')).toBe('MAX_MODEL_LENGTH');
  });

  it('give way to our names, with a warning if they differ', () => {
    const { env, warnings } = settle({ VLLM_MODEL: 'a', MODEL_NAME: 'b', MODEL: 'a' });
    expect(env.VLLM_MODEL).toBe('a');
    expect(warnings).toEqual(['MODEL_NAME is ignored: VLLM_MODEL says something else']);
    expect(settle({ CASOLA_CAPACITY: '2', MAX_CONCURRENCY: '9' }).env.CASOLA_MAX_JOBS).toBeUndefined();
  });

  it('of other workers that mean nothing here are named, and are no flags', () => {
    const none = { WORKER_CUDA_VERSION: '12.1.0' };
    expect(settle(none).warnings).toEqual([expect.stringMatching(/^WORKER_CUDA_VERSION is ignored: /)]);
    expect(settle({}, none).warnings[0]).toMatch(`WORKER_CUDA_VERSION in ${FILE} is ignored: `);
    expect(flagCandidates(none)).toEqual([]);
  });

  it('that the worker reads for jobs in RunPod’s form are no flags, and nothing is said of them', () => {
    const read = {
      ...{ DEFAULT_BATCH_SIZE: '30', DEFAULT_MIN_BATCH_SIZE: '1', DEFAULT_BATCH_SIZE_GROWTH_FACTOR: '3' },
      ...{ ALLOW_OPENAI_FORMAT: '1', RAW_OPENAI_OUTPUT: '1' },
    };
    expect(settle(read).warnings).toEqual([]);
    expect(flagCandidates(read)).toEqual([]);
  });

  it.each([
    ['vllm', 1],
    ['external', 0],
    [undefined, 0],
  ])('with ENGINE=%s and an ENGINE_URL give %i warnings that the address is ignored', (ENGINE, count) => {
    const { warnings } = settle({ ENGINE, ENGINE_URL: 'http://127.0.0.1:1' });
    expect(
      warnings.filter((warning) => /^ENGINE_URL is ignored: ENGINE=vllm starts/.test(warning)),
    ).toHaveLength(count);
  });

  it('lie beneath the environment when they are baked', () => {
    const { env, origins } = settle(
      { QUANTIZATION: 'fp8', MAX_MODEL_LEN: ' ' },
      { ...BAKED, MAX_MODEL_LEN: '8' },
    );
    expect(env).toMatchObject({ VLLM_MODEL: '/models/a', QUANTIZATION: 'fp8', MAX_MODEL_LEN: '8' });
    expect(origins.get('VLLM_MODEL')).toBe(`MODEL_NAME in ${FILE}`);
    expect(origins.get('MAX_MODEL_LEN')).toBe(`MAX_MODEL_LEN in ${FILE}`);
    expect(origins.get('QUANTIZATION')).toBeUndefined();
  });

  it('leave what is set to nothing as it is where nothing lies beneath', () => {
    expect(settle({ CUDA_VISIBLE_DEVICES: '' }).env.CUDA_VISIBLE_DEVICES).toBe('');
  });

  it('find the baked model by its public name, and leave it for another one', () => {
    expect(settle({ MODEL_NAME: 'org/a' }, BAKED).env.VLLM_MODEL).toBe('/models/a');
    const renamed = settle({ VLLM_MODEL: 'org/a', VLLM_SERVED_MODEL_NAME: 'mine' }, BAKED);
    expect(renamed.env).toMatchObject({ VLLM_MODEL: '/models/a', VLLM_SERVED_MODEL_NAME: 'mine' });
    expect(renamed.env.SERVED_MODEL_NAME).toBeUndefined();
    expect(renamed.warnings).toEqual([]);
    const other = settle({ MODEL_NAME: 'org/b' }, BAKED);
    expect(other.env.VLLM_MODEL).toBe('org/b');
    expect(other.env.QUANTIZATION).toBeUndefined();
    expect(other.warnings[0]).toContain('MODEL_NAME names another model');
  });

  it('keep models under BASE_PATH, else on the mounted volume, unless HF_HOME says where', () => {
    expect(settle({ BASE_PATH: '/data' }, {}, true).env.HF_HOME).toBe('/data/huggingface-cache');
    expect(settle({}, {}, true).env.HF_HOME).toBe('/runpod-volume/huggingface-cache');
    expect(settle({}).env.HF_HOME).toBeUndefined();
    expect(settle({ BASE_PATH: '/data', HF_HOME: '/own' }).env.HF_HOME).toBe('/own');
  });
});
