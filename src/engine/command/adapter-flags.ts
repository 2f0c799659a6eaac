import type { DefaultArguments } from './flag-arguments.ts';
import { numberAfter } from './side-by-side.ts';

/**
 * So many adapters are loaded at once unless MAX_LORAS says otherwise. Each place costs GPU memory from the start, for
 * the largest adapter that the engine takes; vLLM by itself has one.
 */
const AT_ONCE = 4;

const FROM = 'ENGINE_ADAPTERS';

/** So that adapters can be loaded while it runs. @param count adapters that the operator lists */
export function defaultAdapters(count: number): DefaultArguments {
  if (count === 0) return { arguments: [], env: {} };
  const flags: [flag: string, ...values: string[]][] = [
    ['--enable-lora'],
    ['--max-loras', String(Math.min(count, AT_ONCE))],
  ];
  return {
    arguments: flags.map((words) => ({ words, flag: words[0], from: FROM })),
    // Routes that read any folder of the machine: nobody but the worker reaches the engine's address.
    env: { VLLM_ALLOW_RUNTIME_LORA_UPDATING: 'True' },
  };
}

/**
 * How many adapters an engine has loaded at once without reading one of them again.
 * @param args it was started with; none: it is not known
 */
export function adapterRoom(args: readonly string[]): number {
  const onGpu = numberAfter(['--max-loras'], args) ?? (args.includes('--enable-lora') ? 1 : AT_ONCE);
  return Math.max(onGpu, numberAfter(['--max-cpu-loras'], args) ?? 0);
}
