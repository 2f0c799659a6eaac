import { describe, expect, it } from 'vitest';
import { readEngineConfiguration } from '../../../src/engine/command/configuration.ts';
import { describeEngine } from '../../../src/engine/kinds/index.ts';

const engine = describeEngine('fastdeploy');

describe('FastDeploy', () => {
  it('is started as a module of Python, with the three ports after the first', () => {
    const { settings } = readEngineConfiguration({
      ENGINE: 'fastdeploy',
      VLLM_MODEL: 'baidu/model',
      VLLM_PORT: '9000',
      VLLM_EXTRA_ARGS: '--max-num-seqs 4',
    });
    const { program, args } = engine.command?.(settings!) ?? { program: '', args: [] };
    expect([program, ...args].join(' ')).toBe(
      'python3 -m fastdeploy.entrypoints.openai.api_server --model baidu/model --host 127.0.0.1 --port 9000 ' +
        '--metrics-port 9001 --engine-worker-queue-port 9002 --cache-queue-port 9003 --max-num-seqs 4',
    );
  });

  it('is refused a port that has not three after it', () => {
    const at = (port: string, engine: string) => () =>
      readEngineConfiguration({ ENGINE: engine, VLLM_MODEL: 'm', VLLM_PORT: port });
    expect(at('65533', 'fastdeploy')).toThrow('VLLM_PORT="65533": expected a port between 1 and 65532');
    expect(at('65532', 'fastdeploy')).not.toThrow();
    expect(at('65535', 'vllm')).not.toThrow();
  });

  it('takes its key from FD_API_KEY, and shows it to nobody', () => {
    const given = { ENGINE: 'fastdeploy', VLLM_MODEL: 'm', FD_API_KEY: 'secret-key', VLLM_API_KEY: 'other' };
    expect(readEngineConfiguration(given).apiKey).toBe('secret-key');
    expect(readEngineConfiguration({ ...given, ENGINE: 'vllm' }).apiKey).toBe('other');
    expect(() => readEngineConfiguration({ ...given, VLLM_PORT: 'x' })).toThrow(/^(?!.*secret-key)/s);
  });

  it.each([
    ['Number of api-server workers: 1.', 'starting', undefined],
    ['Loading Weights:  45%|████▌     | 45/100 [00:10<', 'loading', '45 of 100'],
    ['Loading Layers: 100%|██████████| 100/100 [00:04<', 'loading', '100 of 100'],
    ['Launching chat completion service at http://0.0.0.0:8000/v1/chat/completions', 'ready', undefined],
    ['something else', undefined, undefined],
  ])('tells of its start: %s', (line, phase, progress) => {
    expect(engine.phaseOf(line)?.phase).toBe(phase);
    expect(engine.phaseOf(line)?.progress?.text).toBe(progress);
  });

  it('that ends with 0 without a word has failed all the same', () => {
    expect(
      engine.explainExit(0, ['Failed to initialize FastDeploy LLM engine, service exit now!']),
    ).toMatchObject({
      kind: 'transient',
      cause: expect.stringContaining('initialised'),
    });
    expect(engine.explainExit(1, ["ModuleNotFoundError: No module named 'fastdeploy'"]).kind).toBe(
      'bad_configuration',
    );
    expect(engine.explainExit(1, ['paddle.base.libpaddle: OutOfMemoryError: out of memory']).kind).toBe(
      'out_of_memory',
    );
  });
});
