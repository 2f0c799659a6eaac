import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import {
  argumentsFromEnvironment,
  defaultParallelism,
  flagCandidates,
  groupArguments,
  inVariables,
  masked,
  overriding,
} from '../../../src/engine/command/flag-arguments.ts';
import { parseHelp } from '../../../src/engine/command/learn-flags.ts';
import { vllm } from '../../../src/engine/kinds/vllm.ts';
import { visibleGpus } from '../../../src/engine/machine/gpus.ts';
import { UserError } from '../../../src/process/index.ts';
import { printing, standInNvidiaSmi } from '../../support/nvidia-smi.ts';

/** Lines of `vllm serve --help=all` as version 0.32 has them, one or more of each form. */
const FLAGS = parseHelp(readFileSync(new URL('fixtures/vllm-0.32-help.txt', import.meta.url), 'utf8'));

const fromEnvironment = (env: NodeJS.ProcessEnv) => argumentsFromEnvironment(env, FLAGS, new Map());
const wordsOf = (env: NodeJS.ProcessEnv) => fromEnvironment(env).arguments.flatMap(({ words }) => words);
const warningsOf = (env: NodeJS.ProcessEnv) => fromEnvironment(env).warnings;

describe("an engine's help", () => {
  const kinds = Object.fromEntries(FLAGS.map((flag) => [flag.name, flag.kind]));

  it('tells pairs, flags without a value, lists and values apart', () => {
    expect(kinds).toMatchObject({
      '--enable-prefix-caching': 'switch',
      '--disable-log-stats': 'present',
      '--data-parallel-multi-port-external-lb': 'present',
      '--api-key': 'list',
      '--collect-detailed-traces': 'list',
      '--max-model-len': 'value',
      '--config': 'value',
      '--config-format': 'value',
      '--gdn-prefill-backend': 'value',
      '--tool-call-parser': 'value',
      '--hf-token': 'value',
    });
  });

  it('gives other names, and neither help nor the text of a description', () => {
    const named = (name: string) => FLAGS.find((flag) => flag.name === name)?.otherNames;
    expect(named('--tensor-parallel-size')).toEqual(['-tp']);
    expect(named('--gpu-memory-utilization')).toEqual(['--device-memory-utilization']);
    expect(Object.keys(kinds)).not.toContain('--help');
    expect(Object.keys(kinds)).not.toContain('--options');
    expect(FLAGS).toHaveLength(28);
  });
});

describe("variables that are flags' names", () => {
  it('become the flag with its value', () => {
    expect(wordsOf({ MAX_MODEL_LEN: '4096' })).toEqual(['--max-model-len', '4096']);
    expect(wordsOf({ DEVICE_MEMORY_UTILIZATION: '0.5' })).toEqual(['--gpu-memory-utilization', '0.5']);
    expect(wordsOf({ SEED: '-1' })).toEqual(['--seed=-1']);
  });

  it.each([
    ['true', '--enable-prefix-caching'],
    ['1', '--enable-prefix-caching'],
    ['False', '--no-enable-prefix-caching'],
    ['0', '--no-enable-prefix-caching'],
  ])('switch on and off with %s', (value, word) => {
    expect(wordsOf({ ENABLE_PREFIX_CACHING: value })).toEqual([word]);
  });

  it('leave a flag without a negative form away when it is off', () => {
    expect(wordsOf({ DISABLE_LOG_STATS: '1' })).toEqual(['--disable-log-stats']);
    expect(wordsOf({ DISABLE_LOG_STATS: 'false' })).toEqual([]);
  });

  it('are refused as switches with any other value, all of them by name', () => {
    const read = () => fromEnvironment({ ENABLE_PREFIX_CACHING: 'maybe', TRUST_REMOTE_CODE: 'ja' });
    expect(read).toThrow(UserError);
    expect(read).toThrow(/ENABLE_PREFIX_CACHING="maybe": expected true, false, 1 or 0\n.*TRUST_REMOTE_CODE/);
  });

  it('keep JSON as one word', () => {
    const json = '{"level": 3, "sizes": [1,2]}';
    expect(wordsOf({ COMPILATION_CONFIG: json })).toEqual(['--compilation-config', json]);
    expect(wordsOf({ HF_OVERRIDES: '{"a":1}' })).toEqual(['--hf-overrides', '{"a":1}']);
    expect(wordsOf({ LORA_MODULES: '{"name":"a","path":"b"}' })).toEqual([
      '--lora-modules',
      '{"name":"a","path":"b"}',
    ]);
  });

  it('are split at commas, or as a JSON list, only where the flag takes several', () => {
    expect(wordsOf({ SERVED_MODEL_NAME: 'a, b' })).toEqual(['--served-model-name', 'a', 'b']);
    expect(wordsOf({ LORA_MODULES: '[{"name":"a"},"b=c"]' })).toEqual([
      '--lora-modules',
      '{"name":"a"}',
      'b=c',
    ]);
    expect(wordsOf({ TOOL_CALL_PARSER: 'a,b' })).toEqual(['--tool-call-parser', 'a,b']);
  });

  it('are never host, port, keys, help, or settings of the engine itself', () => {
    const env = {
      ...{ HOST: 'x', PORT: '1', API_KEY: 'k', HELP: '1', MODEL: 'm', HF_TOKEN: 't', LOG_LEVEL: 'info' },
      ...{ VLLM_API_KEY: 'k', VLLM_MAX_MODEL_LEN: '1', PATH: '/bin', KUBERNETES_PORT: '1', SEED: ' ' },
      ...{ VLLM_SERVICE_HOST: '1', SEED_PORT_80_TCP: '1', lower_case: '1' },
    };
    expect(fromEnvironment(env)).toEqual({ arguments: [], warnings: [] });
    expect(flagCandidates(env)).toEqual([]);
  });

  it('with one or two letters wrong are named with the flags that may be meant', () => {
    expect(warningsOf({ MAX_MODLE_LEN: '1' })).toEqual([
      'MAX_MODLE_LEN is ignored: the engine has no such flag; did you mean MAX_MODEL_LEN?',
    ]);
    expect(warningsOf({ ENABLE_PREFIX_CACHE: '1', SOMETHING_ELSE: '1', SEEED: '1' })).toEqual([]);
    expect(warningsOf({ HF_TOKENS: 'x', CUDA_SEED: '1', RUNPOD_SEED: '1' })).toEqual([]);
  });

  it('that every engine might have are named where this one has not', () => {
    const few = FLAGS.filter(({ name }) => name === '--seed');
    const origins = new Map([['TOKENIZER', 'TOKENIZER_NAME']]);
    const given = { MAX_MODEL_LEN: '1', GPU_MEMORY_UTILIZATION: '0.9', TOKENIZER: 't', SEED: '1' };
    const { arguments: taken, warnings } = argumentsFromEnvironment(given, few, origins);
    expect(taken.map(({ from }) => from)).toEqual(['SEED']);
    expect(warnings.map((warning) => /^\w+ is ignored/.exec(warning)?.[0])).toEqual([
      'GPU_MEMORY_UTILIZATION is ignored',
      'MAX_MODEL_LEN is ignored',
      'TOKENIZER_NAME is ignored',
    ]);
  });

  it('that are gone from the engine are ignored with a word on what became of them', () => {
    const warnings = warningsOf({ DISABLE_LOG_REQUESTS: '1', SWAP_SPACE: '4', VLLM_CPU_FRACTION: '1' });
    expect(warnings).toHaveLength(3);
    expect(warnings[0]).toMatch(/DISABLE_LOG_REQUESTS is ignored: .*ENABLE_LOG_REQUESTS=true/);
  });

  it('count as flags, gone or not, as long as the engine has them', () => {
    const flags = [...FLAGS, { name: '--swap-space', otherNames: [], kind: 'value' as const }];
    expect(argumentsFromEnvironment({ SWAP_SPACE: '4' }, flags, new Map())).toEqual({
      arguments: [{ words: ['--swap-space', '4'], flag: '--swap-space', from: 'SWAP_SPACE' }],
      warnings: [],
    });
  });
});

describe('VLLM_EXTRA_ARGS', () => {
  const extra = (...words: string[]) => groupArguments(words, 'VLLM_EXTRA_ARGS', FLAGS);

  it('win over the environment, short forms and negations included', () => {
    const { arguments: earlier } = fromEnvironment({
      MAX_MODEL_LEN: 'abc',
      TENSOR_PARALLEL_SIZE: '4',
      ENABLE_PREFIX_CACHING: '1',
      SEED: '7',
    });
    const later = extra('--max_model_len=8', '-tp', '2', '--no-enable-prefix-caching');
    expect(overriding(earlier, later).flatMap(({ words }) => words)).toEqual([
      '--seed',
      '7',
      '--max_model_len=8',
      '-tp',
      '2',
      '--no-enable-prefix-caching',
    ]);
  });

  it('keep every word, in order', () => {
    const words = ['--api-key', 'a', 'b', '--seed', '-1', 'stray'];
    expect(extra(...words).flatMap((each) => each.words)).toEqual(words);
    expect(extra(...words).map(({ flag }) => flag)).toEqual(['--api-key', '--seed']);
  });
});

describe('tensor parallelism', () => {
  const words = (gpus: number, env: NodeJS.ProcessEnv = {}) =>
    defaultParallelism(vllm, fromEnvironment(env).arguments, gpus).flatMap((each) => each.words);

  it('is over all visible GPUs unless something says how they are used', () => {
    expect(words(4)).toEqual(['--tensor-parallel-size', '4']);
    expect(words(1)).toEqual([]);
    expect(words(0)).toEqual([]);
    expect(words(4, { TENSOR_PARALLEL_SIZE: '2' })).toEqual([]);
    expect(words(4, { CONFIG: 'serve.yaml' })).toEqual([]);
  });

  it.each(['-tp', '--dp-size', '--tp', '--pipeline-parallel-size', '--data-parallel-size-local'])(
    'is left to VLLM_EXTRA_ARGS that say %s, whatever the engine calls it',
    (flag) => {
      expect(defaultParallelism(vllm, groupArguments([flag, '2'], 'VLLM_EXTRA_ARGS', []), 2)).toEqual([]);
    },
  );

  it.each([
    ['0,1', 2],
    ['', 0],
    ['-1', 0],
    ['0,-1,2', 1],
  ])('counts the devices of CUDA_VISIBLE_DEVICES=%s', async (list, count) => {
    expect(await visibleGpus({ CUDA_VISIBLE_DEVICES: list, PATH: '/nowhere' })).toEqual({
      count,
      note: null,
    });
  });

  it.each([
    ['MIG-a', null],
    ['MIG-a,MIG-b', /one MIG instance, of the 2 that are visible.*tensor-parallel size of 1/],
    ['GPU-1f,MIG-2', /one MIG instance/],
  ])('counts one of the MIG instances of CUDA_VISIBLE_DEVICES=%s', async (list, note) => {
    const gpus = await visibleGpus({ CUDA_VISIBLE_DEVICES: list, PATH: '/nowhere' });
    expect(gpus.count).toBe(1);
    if (note === null) expect(gpus.note).toBeNull();
    else expect(gpus.note).toMatch(note);
  });

  it('counts one of the MIG instances that nvidia-smi lists', async () => {
    const folder = standInNvidiaSmi(
      printing(
        'GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-3f0f6b5c-9d0e-4b1b-8f8e-5a1c0d2e7a11)',
        '  MIG 3g.40gb     Device  0: (UUID: MIG-6c96bc1e-7a3b-5d8c-9e55-7b0f3f1d2a01)',
        '  MIG 3g.40gb     Device  1: (UUID: MIG-6c96bc1e-7a3b-5d8c-9e55-7b0f3f1d2a02)',
        'GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-3f0f6b5c-9d0e-4b1b-8f8e-5a1c0d2e7a12)',
      ),
    );
    const PATH = `${folder}:${process.env.PATH}`;
    for (const visible of [{}, { CUDA_VISIBLE_DEVICES: '0,1' }]) {
      const gpus = await visibleGpus({ PATH, ...visible });
      expect(gpus).toEqual({ count: 1, note: expect.stringContaining('one MIG instance') });
    }
  });

  it('finds none where there is no nvidia-smi', async () => {
    expect(await visibleGpus({ PATH: '/nowhere' })).toEqual({ count: 0, note: null });
  });
});

describe('a value that the engine refuses', () => {
  const { arguments: given } = fromEnvironment({
    MAX_MODEL_LEN: 'abc',
    TENSOR_PARALLEL_SIZE: 'x',
    SEED: '1',
  });
  const failure = (cause = '') => ({
    kind: 'bad_configuration' as const,
    cause,
    advice: 'Correct VLLM_EXTRA_ARGS.',
  });

  it('is told with the name of its variable, when its form is wrong', () => {
    const line = "vllm serve: error: argument --tensor-parallel-size/-tp: invalid int value: 'x'";
    expect(inVariables(failure(), [line], given)).toEqual({
      kind: 'bad_configuration',
      cause:
        "the engine does not accept TENSOR_PARALLEL_SIZE (--tensor-parallel-size): invalid int value: 'x'",
      advice: 'Correct TENSOR_PARALLEL_SIZE.',
    });
  });

  it('is told with the name of its variable, when it is out of range', () => {
    const lines = [
      '(APIServer pid=1) pydantic_core.ValidationError: 2 validation errors for SchedulerConfig',
      'max_num_seqs',
      '  Input should be less than 9',
      'max_model_len',
      '  Input should be greater than or equal to 1 [type=greater_than_equal, input_value=0, input_type=int]',
    ];
    expect(inVariables(failure(), lines, given).cause).toBe(
      'the engine does not accept MAX_MODEL_LEN (--max-model-len): Input should be greater than or equal to 1',
    );
  });

  it('is told with the name of its variable, when the model cannot do it', () => {
    const told = {
      ...failure('--max-model-len 9 is more than the model can do'),
      advice: 'Set a smaller --max-model-len in VLLM_EXTRA_ARGS.',
    };
    expect(inVariables(told, [], given)).toMatchObject({
      cause: 'MAX_MODEL_LEN (--max-model-len) 9 is more than the model can do',
      advice: 'Set a smaller MAX_MODEL_LEN.',
    });
  });

  it('is left as it was when no variable set it', () => {
    const line = "vllm serve: error: argument --dtype: invalid choice: 'x'";
    expect(inVariables(failure('as told'), [line], given)).toEqual(failure('as told'));
  });
});

describe('secrets', () => {
  it('are shown neither as values of flags nor where they stand in other words', () => {
    const env = { HF_TOKEN: 'hf_abcdef', TOKENIZER: 'shown' };
    const show = (words: string[]) => masked(groupArguments(words, 'x', FLAGS)[0]!, env).join(' ');
    expect(show(['--api-key', 'a', 'b'])).toBe('--api-key (secret) (secret)');
    expect(show(['--api-key=a'])).toBe('--api-key=(secret)');
    expect(show(['--seed', 'hf_abcdef/1'])).toBe('--seed (secret)/1');
    expect(show(['--tokenizer', 'shown'])).toBe('--tokenizer shown');
  });
});
