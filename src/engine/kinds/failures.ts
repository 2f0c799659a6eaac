import { EXIT } from '../../process/exit-codes.ts';
import type { EngineFailure } from './description.ts';
import type { FailureKind } from './report.ts';

/**
 * The exit code of each kind of failure; that of a transient failure depends on whether the engine had been healthy.
 */
const EXIT_OF_KIND: Record<Exclude<FailureKind, 'transient'>, number> = {
  bad_host: EXIT.badHost,
  bad_configuration: EXIT.configuration,
  bad_model: EXIT.badModel,
  out_of_memory: EXIT.outOfMemory,
};

/** Returns the exit code of worker and container after the engine failed. */
export function failureExitCode(kind: FailureKind, wasHealthy: boolean): number {
  if (kind !== 'transient') return EXIT_OF_KIND[kind];
  return wasHealthy ? EXIT.engineDied : EXIT.engineFailedToStart;
}

export interface FailureRule {
  pattern: RegExp;
  kind: FailureKind;
  /** The cause; `$1` is the pattern's first group, here and in the advice. Left out, the matched text is the cause. */
  cause?: string;
  advice: string;
}

/** The words in which advice names the commands and flags of an engine. */
export interface AdviceWords {
  /** The command that lists the engine's flags. */
  help: string;
  /** The flags that advice names, with their dashes. */
  contextLength: string;
  maxSequences: string;
  memoryShare: string;
  gpus: string;
  /** The package for machines without a GPU; left out: there is none. */
  withoutGpu?: string | undefined;
}

/**
 * Returns rules for the last words of vLLM 0.32 when it fails, which also fit any engine over CUDA and Hugging Face;
 * the most telling rule comes first.
 */
export function commonRules(words: AdviceWords): FailureRule[] {
  const memoryAdvice =
    `Free the GPU of other processes (nvidia-smi shows them), or set in VLLM_EXTRA_ARGS a smaller ${words.contextLength} ` +
    `or ${words.maxSequences}, a different ${words.memoryShare}, or more GPUs with ${words.gpus}; or use a smaller model.`;
  return [
    {
      pattern: /unrecognized arguments: (.*)/,
      kind: 'bad_configuration',
      cause: 'the engine does not know the argument $1',
      advice: `Correct VLLM_EXTRA_ARGS; "${words.help}" lists every argument.`,
    },
    {
      pattern: /error: argument (\S+): (.*)/,
      kind: 'bad_configuration',
      cause: 'the engine does not accept the value of $1: $2',
      advice: `Correct VLLM_EXTRA_ARGS; "${words.help}" lists the values it takes.`,
    },
    {
      pattern: /\[Errno 98\]|address already in use/i,
      kind: 'bad_configuration',
      cause: "the engine's port is in use",
      advice: 'Stop what listens there or set another VLLM_PORT.',
    },
    {
      pattern: /GatedRepoError|gated repo|401 Client Error/i,
      kind: 'bad_model',
      cause: 'the model asks for a Hugging Face account that may read it',
      advice: 'Accept its licence on its page and set HF_TOKEN.',
    },
    {
      pattern:
        /HFValidationError: Repo id must be|RepositoryNotFoundError|is not a local folder and is not a valid model/,
      kind: 'bad_model',
      cause: 'there is no such model',
      advice:
        'Check VLLM_MODEL: a folder of this machine, or owner/name on Hugging Face (a private one needs HF_TOKEN).',
    },
    {
      pattern: /OfflineModeIsEnabled|outgoing traffic has been disabled/,
      kind: 'bad_model',
      cause: 'the model is not on this machine, and HF_HUB_OFFLINE forbids to download it',
      advice: 'Unset HF_HUB_OFFLINE, or set VLLM_MODEL to a local folder.',
    },
    {
      pattern: /LocalEntryNotFoundError|We couldn't connect to/,
      kind: 'transient',
      cause: 'the model is not on this machine and could not be downloaded',
      advice:
        'Check the connection to Hugging Face (and HF_HUB_OFFLINE), or set VLLM_MODEL to a local folder.',
    },
    {
      pattern: /OpenTelemetry is not available/,
      kind: 'bad_configuration',
      cause: 'the engine lacks the packages that export spans',
      advice:
        'Install opentelemetry-sdk and opentelemetry-exporter-otlp beside it, or unset OTEL_EXPORTER_OTLP_ENDPOINT.',
    },
    {
      pattern: /No space left on device/,
      kind: 'bad_configuration',
      cause: 'the disk is full',
      advice: 'Free space, or set HF_HOME to a larger disk.',
    },
    {
      pattern: /Cannot find any model weights/,
      kind: 'bad_model',
      cause: 'the model has no weights that the engine can load',
      advice: 'Check the folder or repository that VLLM_MODEL names: it needs .safetensors or .bin files.',
    },
    {
      pattern: /max_model_len \((\d+)\) is greater than the derived/,
      kind: 'bad_configuration',
      cause: `${words.contextLength} $1 is more than the model can do`,
      advice: `Set a smaller ${words.contextLength} in VLLM_EXTRA_ARGS.`,
    },
    {
      pattern:
        /max seq len \((\d+)\).*larger than the available KV cache memory.*maximum model length is (\d+)/,
      kind: 'out_of_memory',
      cause: 'the memory does not suffice for a context of $1 tokens',
      advice: `Set ${words.contextLength} $2 or less in VLLM_EXTRA_ARGS. Or: ${memoryAdvice}`,
    },
    {
      pattern:
        /larger than the available KV cache memory|No available memory for the cache blocks|Free memory on device|CUDA out of memory|GPU memory allocation failed|OutOfMemoryError|MemoryError|Cannot allocate memory|std::bad_alloc/,
      kind: 'out_of_memory',
      cause: 'the memory does not suffice for the model and its KV cache',
      advice: memoryAdvice,
    },
    {
      pattern:
        /driver on your system is too old|driver version is insufficient|forward compatibility was attempted|unsupported display driver|system has unsupported|incompatible CUDA version|CUDA version.*incompatible/i,
      kind: 'bad_host',
      cause: 'the NVIDIA driver of this machine does not suit the CUDA version of the engine',
      advice: 'Use a machine with a newer driver, or an image with an older CUDA.',
    },
    {
      pattern: /uncorrectable ECC|fallen off the bus|hardware error/i,
      kind: 'bad_host',
      cause: 'the GPU is broken: $0',
      advice: 'Use another machine; nvidia-smi -q and the kernel log say more.',
    },
    {
      pattern:
        /No CUDA GPUs are available|no CUDA-capable device|no NVIDIA driver|Failed to infer device type|libcuda\.so/i,
      kind: 'bad_host',
      cause: 'no GPU was found',
      advice: `Check nvidia-smi; a container needs "--gpus all".${words.withoutGpu ? ` Without a GPU install ${words.withoutGpu}.` : ''}`,
    },
    {
      pattern: /(NCCL (?:error|WARN).*|ncclSystemError.*|ncclUnhandledCudaError.*)/,
      kind: 'transient',
      cause: 'the GPUs could not talk to each other: $1',
      advice:
        'Give the container more shared memory (--ipc=host or --shm-size), or set NCCL_DEBUG=INFO to see more.',
    },
    {
      pattern: /CUDA error: (.*)/,
      kind: 'transient',
      cause: 'the GPU reported an error: $1',
      advice: 'Check nvidia-smi and the driver; if it stays, the machine may be bad.',
    },
    {
      pattern: /validation errors? for (\w+Config)/,
      kind: 'bad_configuration',
      cause: 'vLLM refuses a value of its $1',
      advice: 'The log says which one: correct VLLM_EXTRA_ARGS.',
    },
    {
      pattern: /\((?:EngineCore|Worker)[^)]*\) ERROR .*?(\w+(?:Error|Exception): .*)/,
      kind: 'transient',
      cause: '$1',
      advice: 'The lines of the log before it say more.',
    },
    {
      pattern: /Worker proc \S+ died unexpectedly|engine core exited unexpectedly|EngineDeadError/i,
      kind: 'transient',
      cause: "vLLM's engine process died",
      advice: 'Often the memory of the machine ran out: look for "Out of memory" in the kernel log.',
    },
  ];
}

/**
 * Matches lines that mean that the start cannot succeed. These are narrower than the rules, which read the last lines
 * of an engine that has ended: a compiler's warning may name a missing libcuda.so too.
 */
const DECISIVE: readonly RegExp[] = [
  /driver on your system is too old|driver version is insufficient|forward compatibility was attempted|unsupported display driver/i,
  /incompatible CUDA version|CUDA version.*incompatible/i,
  /libcuda\.so\S*: cannot open shared object file|cannot open shared object file.*libcuda/i,
  /No CUDA GPUs are available|no CUDA-capable device|no NVIDIA driver on your system|Failed to infer device type/i,
  /uncorrectable ECC|fallen off the bus/i,
  /CUDA out of memory|torch\.(?:cuda\.)?OutOfMemoryError|No available memory for the cache blocks|larger than the available KV cache memory|GPU memory allocation failed/,
];

/** Matches a line that the engine itself labels as less than an error. */
const NO_ERROR = /^(?:\([^)]*\)\s*)?(?:DEBUG|INFO|WARNING)\b/;

/** Returns the failure that a decisive line reports; null for all other lines. */
export function decisiveBy(rules: readonly FailureRule[], line: string): EngineFailure | null {
  if (NO_ERROR.test(line) || !DECISIVE.some((pattern) => pattern.test(line))) return null;
  return explainBy(rules, 1, [line]);
}

/**
 * Explains the last lines of an engine, by rules from the most to the least telling: one line of cause and one of
 * advice.
 * @param exitCode null: a signal ended the engine
 */
export function explainBy(
  rules: readonly FailureRule[],
  exitCode: number | null,
  lastLines: readonly string[],
): EngineFailure {
  for (const rule of rules) {
    // The first line that matches counts: later lines mostly repeat the same error as it propagates.
    const match = lastLines.map((line) => rule.pattern.exec(line)).find((found) => found !== null);
    if (!match) continue;
    const fill = (text: string) => text.replace(/\$(\d)/g, (_, group) => (match[Number(group)] ?? '').trim());
    return { cause: fill(rule.cause ?? '$0'), advice: fill(rule.advice), kind: rule.kind };
  }
  if (exitCode === null) {
    return {
      cause: 'the engine was killed',
      advice: 'If nobody did, the machine ran out of memory: see the kernel log.',
      kind: 'transient',
    };
  }
  return {
    cause: `the engine ended with exit code ${exitCode}`,
    advice: 'The last lines of its log may say why.',
    kind: 'transient',
  };
}
