import { EXIT, UserError } from '../../process/index.ts';
import type { Adapter } from '../../protocol/index.ts';
import type { Argument, DefaultArguments } from './flag-arguments.ts';
import { numberAfter } from './side-by-side.ts';

/**
 * The most adapters that are loaded at once unless MAX_LORAS says otherwise. Each place costs GPU memory from the
 * start, for the largest adapter that the engine takes; the default of vLLM is one.
 */
const AT_ONCE = 4;

const FROM = 'ENGINE_ADAPTERS';

/**
 * Returns the flags with which an engine can load adapters while it runs.
 * @param count number of adapters that the operator lists
 */
export function adapterFlags(count: number): DefaultArguments {
  if (count === 0) return { arguments: [], env: {} };
  const flags: [flag: string, ...values: string[]][] = [
    ['--enable-lora'],
    ['--max-loras', String(Math.min(count, AT_ONCE))],
  ];
  return {
    arguments: flags.map((words) => ({ words, flag: words[0], from: FROM })),
    // These routes read any folder of the machine; only the worker reaches the engine's address.
    env: { VLLM_ALLOW_RUNTIME_LORA_UPDATING: 'True' },
  };
}

/** Flags whose values are names that the engine answers to from its start on. */
const NAMING = ['--served-model-name', '--lora-modules'];

/**
 * Refuses an adapter whose name the engine is started with already, whatever set it: the engine would say that the
 * adapter is loaded, and answer with the other owner of the name.
 * @param args all arguments that the engine is started with
 * @throws UserError that names both
 */
export function refuseSharedNames(list: readonly Adapter[], args: readonly Argument[]): void {
  for (const { flag, words, from } of args) {
    if (flag === null || !NAMING.includes(flag)) continue;
    const values = words.flatMap((word) =>
      word.startsWith(`${flag}=`) ? word.slice(flag.length + 1) : word,
    );
    const taken = values.map(nameIn);
    const shared = list.find(({ name }) => taken.includes(name));
    if (!shared) continue;
    throw new UserError(
      `ENGINE_ADAPTERS: the adapter "${shared.name}" has a name that ${flag} (${from}) gives to something else, and callers would ask for both by it: give it another name`,
      EXIT.configuration,
    );
  }
}

/** Returns the name of a LoRA module, which is `name=path` or JSON; any other word is a name. */
function nameIn(word: string): string {
  return /^\s*\{.*"name"\s*:\s*"([^"]*)"/s.exec(word)?.[1] ?? word.split('=')[0]!;
}

/**
 * Returns how many adapters an engine has loaded at once without reading one of them again.
 * @param args the arguments that it was started with; none: they are not known
 */
export function adapterRoom(args: readonly string[]): number {
  const onGpu = numberAfter(['--max-loras'], args) ?? (args.includes('--enable-lora') ? 1 : AT_ONCE);
  return Math.max(onGpu, numberAfter(['--max-cpu-loras'], args) ?? 0);
}
