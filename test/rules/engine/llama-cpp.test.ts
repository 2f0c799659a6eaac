import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { readEngineConfiguration } from '../../../src/engine/command/configuration.ts';
import { defaultFlags, requestsSideBySide } from '../../../src/engine/command/default-flags.ts';
import { argumentsFromEnvironment, defaultParallelism } from '../../../src/engine/command/flag-arguments.ts';
import { parseHelp } from '../../../src/engine/command/learn-flags.ts';
import { describeEngine } from '../../../src/engine/kinds/index.ts';
import { levelOf } from '../../../src/engine/kinds/log-phases.ts';

const engine = describeEngine('llama-cpp');

/** Lines of `llama-server --help` of build 10434, one or more of each form. */
const FLAGS = parseHelp(readFileSync(new URL('fixtures/llama-cpp-10434-help.txt', import.meta.url), 'utf8'));

function wordsOf(env: NodeJS.ProcessEnv): string {
  const said = argumentsFromEnvironment(env, FLAGS, new Map(), engine);
  return said.arguments.flatMap(({ words }) => words).join(' ');
}

function commandOf(env: NodeJS.ProcessEnv): string {
  const { settings } = readEngineConfiguration({ ENGINE: 'llama-cpp', ...env });
  const { program, args } = engine.command!(settings!);
  return [program, ...args].join(' ');
}

describe('llama.cpp', () => {
  it.each([
    ['/models/m.gguf', '--model'],
    ['./m', '--model'],
    ['m.GGUF', '--model'],
    ['owner/name', '--hf-repo'],
    ['owner/name-GGUF:Q8_0', '--hf-repo'],
  ])('is started with a file or a repository: %s', (model, flag) => {
    expect(commandOf({ VLLM_MODEL: model, VLLM_PORT: '9000', VLLM_SERVED_MODEL_NAME: 'tiny' })).toBe(
      `llama-server ${flag} ${model} --host 127.0.0.1 --port 9000 --alias tiny --metrics`,
    );
  });

  it('answers to the name of its model, unless somebody names it', () => {
    const { settings } = readEngineConfiguration({ ENGINE: 'llama-cpp', VLLM_MODEL: '/m.gguf' });
    const usual = (named?: string) =>
      defaultFlags(engine, { ...settings!, servedModelName: named }, 0, [], {}).arguments.map(
        ({ words }) => words,
      );
    expect(usual()).toEqual([['--alias', '/m.gguf']]);
    expect(usual('tiny')).toEqual([]);
  });

  it('has a slot for each job of its worker, unless somebody says how many it has', () => {
    const { settings } = readEngineConfiguration({ ENGINE: 'llama-cpp', VLLM_MODEL: '/m.gguf' });
    const named = { ...settings!, servedModelName: 'm' };
    const wordsFor = (CASOLA_MAX_JOBS: string, more: NodeJS.ProcessEnv = {}) => {
      const env = { CASOLA_MAX_JOBS, ...more };
      const asked = argumentsFromEnvironment(env, FLAGS, new Map(), engine).arguments;
      const usual = defaultFlags(engine, named, 0, asked, env).arguments;
      return [...usual, ...asked].flatMap(({ words }) => words).join(' ');
    };
    expect([wordsFor('auto'), wordsFor('4')]).toEqual(['', '']);
    expect(wordsFor('16')).toBe('--parallel 16 --kv-unified');
    expect(wordsFor('16', { MAX_NUM_SEQS: '8' })).toBe('--parallel 8');
    expect(wordsFor('16', { MAX_MODEL_LEN: '1000' })).toBe('--ctx-size 16000 --parallel 16');
  });

  it('has the slots that VLLM_EXTRA_ARGS says, by either name', () => {
    for (const VLLM_EXTRA_ARGS of ['-np 8', '--threads 4 --parallel=8']) {
      expect(wordsOf({ MAX_MODEL_LEN: '4096', MAX_NUM_SEQS: '2', VLLM_EXTRA_ARGS })).toBe(
        '--ctx-size 32768 --parallel 2',
      );
      expect(wordsOf({ MAX_MODEL_LEN: '4096', CASOLA_MAX_JOBS: '16', VLLM_EXTRA_ARGS })).toBe(
        '--ctx-size 32768',
      );
      expect(requestsSideBySide(engine, VLLM_EXTRA_ARGS.split(' '))).toBe(8);
    }
  });

  it('takes its flags by their names, and vLLM’s names for the same', () => {
    expect(wordsOf({ THREADS: '4', FLASH_ATTN: 'on', KV_OFFLOAD: '0', EMBEDDINGS: 'true' })).toBe(
      '--embedding --flash-attn on --no-kv-offload --threads 4',
    );
    expect(wordsOf({ MAX_MODEL_LEN: '4096', MAX_NUM_SEQS: '8', SERVED_MODEL_NAME: 'a' })).toBe(
      '--ctx-size 32768 --parallel 8 --alias a',
    );
    expect(wordsOf({ MAX_MODEL_LEN: '32K' })).toBe('--ctx-size 131072 --parallel 4');
    expect(wordsOf({ CTX_SIZE: '4096', PATH: '/bin', VERSION: '1.2', LLAMA_ARG_THREADS: '4' })).toBe(
      '--ctx-size 4096',
    );
  });

  it.each([
    [{ MAX_MODEL_LEN: 'auto' }, 'MAX_MODEL_LEN="auto": expected a number of tokens such as 4096 or 32K'],
    [{ MAX_NUM_SEQS: '0' }, 'MAX_NUM_SEQS="0": expected a number of requests, from 1'],
  ])('is not started with a value that it would read as another: %j', (env, message) => {
    expect(() => wordsOf(env)).toThrow(message);
  });

  it('warns of flags of vLLM that it has under no name, and takes all GPUs by itself', () => {
    const env = { GPU_MEMORY_UTILIZATION: '0.9' };
    expect(argumentsFromEnvironment(env, FLAGS, new Map(), engine).warnings[0]).toMatch(
      /^GPU_MEMORY_UTILIZATION is ignored/,
    );
    expect(defaultParallelism(engine, [], 4)).toEqual([]);
  });

  it('takes its key from LLAMA_API_KEY', () => {
    const given = { ENGINE: 'llama-cpp', VLLM_MODEL: 'o/m', LLAMA_API_KEY: 'secret', VLLM_API_KEY: 'other' };
    expect(readEngineConfiguration(given).apiKey).toBe('secret');
  });

  it.each([
    ["0.00.007.525 I srv    load_model: loading model '/m.gguf'", 'loading', 'info'],
    ['0.00.137.924 I cmn  common_init_: warming up the model with an empty run', 'warming', 'info'],
    ['0.00.240.780 I srv  llama_server: listening on http://127.0.0.1:8000', 'ready', 'info'],
    ["0.00.010.060 E srv    load_model: failed to load model, '/m.gguf'", undefined, 'error'],
    ['0.00.005.638 W srv  llama_server: CORS is set to allow all origins', undefined, 'warn'],
    ['AMX is not ready to be used!', undefined, 'info'],
  ])('tells of its start: %s', (line, phase, level) => {
    expect([engine.phaseOf(line)?.phase, levelOf(line)]).toEqual([phase, level]);
  });

  it('goes on without a GPU that CUDA cannot use, so no line of its start decides', () => {
    const line = 'ggml_cuda_init: failed to initialize CUDA: no CUDA-capable device is detected';
    expect(engine.decisiveFailure(line)).toBeNull();
  });
});

describe('the cause in llama.cpp’s last words', () => {
  it.each([
    ['error: invalid argument: --frobnicate', 'bad_configuration', 'the argument --frobnicate'],
    ['error while handling argument "-c": stoi', 'bad_configuration', 'the value of -c: it expects a number'],
    [
      'error while handling argument "--flash-attn": error: unknown value for --flash-attn: \'maybe\'',
      'bad_configuration',
      "--flash-attn: unknown value for --flash-attn: 'maybe'",
    ],
    [
      "0.00.003.717 E srv         start: couldn't bind HTTP server socket, hostname: 127.0.0.1, port: 18125",
      'bad_configuration',
      'port is in use',
    ],
    [
      "0.00.008.791 E gguf_init_from_file: failed to open GGUF file '/nope.gguf' (No such file or directory)",
      'bad_model',
      'the file /nope.gguf cannot be opened: No such file or directory',
    ],
    [
      "0.00.003.845 E gguf_init_from_reader: invalid magic characters: 'hell', expected 'GGUF'",
      'bad_model',
      'damaged',
    ],
    ["llama_model_load: error loading model: unknown model architecture: 'new'", 'bad_model', 'new'],
    ['0.00.057.926 E get_repo_commit: error: GET failed (404): {}', 'bad_model', 'no such model'],
    ['0.00.057.926 E get_repo_commit: error: GET failed (401): {}', 'bad_model', 'Hugging Face account'],
    ['0.00.057.926 E get_repo_commit: error: GET failed (503): {}', 'transient', 'GET failed (503)'],
    [
      '0.00.005.650 E get_repo_commit: error: HTTPLIB failed: Could not establish connection',
      'transient',
      'could not be downloaded',
    ],
    ["0.00.003.966 E srv    load_model: failed to load model, ''", 'bad_model', 'not on this machine'],
    [
      '0.14.919.596 E ggml_aligned_malloc: insufficient memory (attempted to allocate 781250.00 MB)',
      'out_of_memory',
      'memory does not suffice',
    ],
    [
      'ggml_backend_cuda_buffer_type_alloc_buffer: cudaMalloc failed: out of memory',
      'out_of_memory',
      'memory',
    ],
    ['CUDA error: an illegal memory access was encountered', 'transient', 'an illegal memory access'],
    ['something else', 'transient', 'exit code 1'],
  ])('%s', (line, kind, cause) => {
    const failure = engine.explainExit(1, ['0.00.001.000 I before', line, '0.09.000.000 I after']);
    expect(failure.kind).toBe(kind);
    expect(failure.cause).toContain(cause);
    expect(failure.advice).not.toBe('');
  });
});
