import { describe, expect, it } from 'vitest';
import { commonRules, explainBy } from '../../../src/engine/kinds/failures.ts';
import { describeEngine } from '../../../src/engine/kinds/index.ts';

const explainVllmExit = describeEngine('vllm').explainExit;

describe("the cause in vLLM's last words", () => {
  it.each([
    ['vllm: error: unrecognized arguments: --max-modle-len 5', '--max-modle-len 5', 'VLLM_EXTRA_ARGS'],
    [
      "vllm serve: error: argument --dtype: invalid choice: 'bad'",
      "--dtype: invalid choice: 'bad'",
      'VLLM_EXTRA_ARGS',
    ],
    ['OSError: [Errno 98] Address already in use', 'port is in use', 'VLLM_PORT'],
    ['huggingface_hub.errors.HFValidationError: Repo id must be in the form', 'no such model', 'VLLM_MODEL'],
    [
      'huggingface_hub.errors.LocalEntryNotFoundError: Cannot find',
      'could not be downloaded',
      'HF_HUB_OFFLINE',
    ],
    ['huggingface_hub.errors.GatedRepoError: 401 Client Error.', 'Hugging Face account', 'HF_TOKEN'],
    ['RuntimeError: Cannot find any model weights with `./tiny`', 'no weights', 'VLLM_MODEL'],
    [
      'ValueError: max_model_len (9999) is greater than the derived max_model_len',
      '--max-model-len 9999',
      'smaller',
    ],
    [
      'ValueError: ... which is larger than the available KV cache memory (0.1 GiB)',
      'memory',
      '--max-model-len',
    ],
    [
      "ValueError: To serve at least one request with the model's max seq len (131072), (0.06 GiB KV cache is needed, which is larger than the available KV cache memory (0.0 GiB). Based on the available memory, the estimated maximum model length is 1920. Try",
      'a context of 131072 tokens',
      '--max-model-len 1920 or less',
    ],
    ['torch.OutOfMemoryError: CUDA out of memory. Tried to allocate', 'memory', '--gpu-memory-utilization'],
    ['RuntimeError: No CUDA GPUs are available', 'no GPU', 'nvidia-smi'],
    [
      'pydantic_core.ValidationError: 1 validation error for SchedulerConfig',
      'SchedulerConfig',
      'VLLM_EXTRA_ARGS',
    ],
    [
      'RuntimeError: Worker proc VllmWorker-0 died unexpectedly (exit code: -9), shutting down',
      'died',
      'memory',
    ],
  ])('%s', (line, cause, advice) => {
    const failure = explainVllmExit(1, ['noise before', line, 'noise after']);
    expect(failure.cause).toContain(cause);
    expect(failure.advice).toContain(advice);
  });

  it.each([
    ['The NVIDIA driver on your system is too old (found version 11040)', 'bad_host'],
    ['CUDA driver version is insufficient for CUDA runtime version', 'bad_host'],
    ['Error 804: forward compatibility was attempted on non supported HW', 'bad_host'],
    ['RuntimeError: system has unsupported display driver / cuda driver combination', 'bad_host'],
    ['ImportError: libcuda.so.1: cannot open shared object file: No such file or directory', 'bad_host'],
    ['CUDA error: uncorrectable ECC error encountered', 'bad_host'],
    ['vllm serve: error: argument --dtype: invalid choice', 'bad_configuration'],
    ['ValueError: OpenTelemetry is not available. Unable to configure', 'bad_configuration'],
    ['ValueError: max_model_len (9999) is greater than the derived max_model_len', 'bad_configuration'],
    ['huggingface_hub.errors.RepositoryNotFoundError: 404', 'bad_model'],
    ['RuntimeError: Cannot find any model weights with `./tiny`', 'bad_model'],
    ['ValueError: No available memory for the cache blocks.', 'out_of_memory'],
    ['torch.OutOfMemoryError: CUDA out of memory.', 'out_of_memory'],
    ['RuntimeError: NCCL error: unhandled system error', 'transient'],
    ['torch.AcceleratorError: CUDA error: an illegal memory access was encountered', 'transient'],
    ['Segmentation fault (core dumped)', 'transient'],
  ])('is of a kind: %s', (line, kind) => {
    expect(explainVllmExit(1, [line]).kind).toBe(kind);
  });

  it('takes the first error of the engine process, not what it caused further up', () => {
    const { cause } = explainVllmExit(1, [
      '(EngineCore pid=9) ERROR 11-21 09:08:51 [core.py:1] ValueError: the real one',
      '(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above.',
    ]);
    expect(cause).toBe('ValueError: the real one');
  });

  it('tells a known cause from a chain that ends in the engine process', () => {
    const { cause } = explainVllmExit(1, [
      '(EngineCore pid=9) ERROR 11-21 09:08:51 [core.py:1] torch.OutOfMemoryError: CUDA out of memory.',
      'RuntimeError: Engine core initialization failed.',
    ]);
    expect(cause).toContain('memory');
  });

  it('says what little is known otherwise', () => {
    expect(explainVllmExit(0, ['bye']).cause).toBe('the engine ended with exit code 0');
    expect(explainVllmExit(null, []).cause).toBe('the engine was killed');
  });

  it.each([
    'error: unrecognized arguments: --x',
    'ValueError: max_model_len (9999) is greater than the derived max_model_len',
    'torch.OutOfMemoryError: CUDA out of memory.',
  ])('comes with advice in the words of the engine that said it: %s', (line) => {
    const words = {
      help: 'serve -h',
      contextLength: '--l',
      maxSequences: '--s',
      memoryShare: '--m',
      gpus: '--g',
    };
    const { cause, advice } = explainBy(commonRules(words), 1, [line]);
    expect(`${cause} ${advice}`).not.toMatch(/vllm serve|--max-|--gpu|--tensor/);
    expect(advice).toMatch(/serve -h|--l/);
    expect(describeEngine('fastdeploy').explainExit(1, [line]).advice).not.toContain('vllm serve');
  });
});
