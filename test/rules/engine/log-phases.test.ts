import { describe, expect, it } from 'vitest';
import { levelOf, vllmPhase } from '../../../src/engine/kinds/log-phases.ts';

describe("phases in vLLM's log", () => {
  it.each([
    ["(APIServer pid=1) INFO 11-21 09:08:51 [utils.py:233] non-default args: {'model': 'x'}", 'starting'],
    [
      '(APIServer pid=1) INFO 11-21 09:08:51 [model.py:1] Resolved architecture: LlamaForCausalLM',
      'starting',
    ],
    [
      '(EngineCore pid=9) INFO 11-21 09:08:51 [core.py:1] Initializing a V1 LLM engine (v0.32.0) with config',
      'starting',
    ],
    ['model-00001-of-00004.safetensors:  45%|████▌     | 2.2G/4.9G [00:10<00:12]', 'downloading'],
    ['(Worker pid=12) INFO 11-21 09:08:51 [x.py:1] Starting to load model ./tiny...', 'loading'],
    ['Loading safetensors checkpoint shards:  50% Completed | 1/2 [00:01<00:01,  1.0s/it]', 'loading'],
    ['(Worker pid=12) INFO 11-21 09:08:51 [x.py:1] Model loading took 0.5 GiB and 1.2 seconds', 'loading'],
    ['(Worker pid=12) INFO 11-21 09:08:51 [x.py:1] torch.compile takes 12.3 s in total', 'compiling'],
    ['Capturing CUDA graphs (mixed prefill-decode, PIECEWISE):  10%|█', 'capturing'],
    ['(EngineCore pid=9) INFO 11-21 09:08:51 [x.py:1] GPU KV cache size: 2,097,152 tokens', 'warming'],
    [
      '(EngineCore pid=9) INFO 11-21 09:08:51 [x.py:1] init engine (profile, create kv cache, warmup model) took 0.85 s',
      'warming',
    ],
    [
      '(APIServer pid=1) INFO 11-21 09:08:51 [x.py:1] Starting vLLM server on http://127.0.0.1:8000',
      'warming',
    ],
    ['INFO:     Application startup complete.', 'ready'],
  ])('%s', (line, phase) => {
    expect(vllmPhase(line)?.phase).toBe(phase);
  });

  it('gives the text without the prefix of the log as detail', () => {
    expect(
      vllmPhase('(Worker pid=12) INFO 11-21 09:08:51 [x.py:1] Starting to load model ./tiny')?.detail,
    ).toBe('Starting to load model ./tiny');
  });

  it.each([
    ['Loading safetensors checkpoint shards:  50% Completed | 1/2 [00:01<00:01,  1.0s/it]', '1 of 2'],
    ['model-00001-of-00004.safetensors:  45%|████▌     | 2.2G/4.9G [00:10<00:12]', '45 %'],
    ['Fetching 10 files:  30%|███       | 3/10 [00:02<00:05,  1.4it/s]', '3 of 10'],
    ['Capturing CUDA graphs (mixed prefill-decode, PIECEWISE):  10%|█         | 7/67 [00:01<', '7 of 67'],
    ['(Worker pid=12) INFO 11-21 09:08:51 [x.py:1] Model loading took 0.5 GiB and 1.2 seconds', undefined],
  ])('reads how far it is: %s', (line, progress) => {
    expect(vllmPhase(line)?.progress?.text).toBe(progress);
  });

  it.each([
    ['Loading safetensors checkpoint shards:  50% Completed | 1/2 [00:01<00:01,  1.0s/it]', 0.5],
    ['Fetching 10 files:  30%|███       | 3/10 [00:02<00:05,  1.4it/s]', 0.3],
    ['model.safetensors:  45%|████▌     | 2.2G/4.9G [00:10<00:12]', 0.45],
    ['model-00001-of-00004.safetensors:  45%|████▌     | 2.2G/4.9G [00:10<00:12]', undefined],
  ])('reads what share is done, but not off one file of several: %s', (line, share) => {
    expect(vllmPhase(line)?.progress?.share).toBe(share);
  });

  it('does not guess at other wording', () => {
    for (const line of [
      '',
      'hello',
      '(APIServer pid=1) INFO 11-21 09:08:51 [x.py:1] Using max model len 2048',
    ]) {
      expect(vllmPhase(line)).toBeNull();
    }
  });
});

describe("loudness of the engine's lines", () => {
  it.each([
    ['(EngineCore pid=9) ERROR 11-21 09:08:51 [x.py:1] boom', 'error'],
    ['WARNING 11-21 09:08:51 [x.py:1] careful', 'warn'],
    ['(APIServer pid=1) INFO:     127.0.0.1:1 - "GET /health HTTP/1.1" 200 OK', 'debug'],
    ['(APIServer pid=1) INFO:     127.0.0.1:1 - "POST /v1/chat/completions HTTP/1.1" 200 OK', 'info'],
  ])('%s', (line, level) => {
    expect(levelOf(line)).toBe(level);
  });
});
