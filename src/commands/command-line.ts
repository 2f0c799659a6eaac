import type { Command, Option } from 'commander';
import * as z from 'zod';
import { readEnvironment, variable } from '../process/environment.ts';
import { QUEUE_SETTINGS } from '../settings/queue-settings.ts';

export const DEFAULT_QUEUE_URL = 'http://127.0.0.1:8788';
export const DEFAULT_STATE = '.worker-vllm';

/** Ends the process at once with the command's code, since a stuck child must not keep it alive. */
export async function finish(code: Promise<number>): Promise<never> {
  process.exit(await code);
}

export function withStateOption(command: Command): Command {
  const what = 'state folder of the queue (variable WORKER_VLLM_STATE)';
  return command.option('--state <dir>', what, DEFAULT_STATE);
}

/** Returns the parts of an option's list, which are separated by commas. */
export function list(text: string): string[] {
  return text
    .split(',')
    .map((part) => part.trim())
    .filter(Boolean);
}

/** The options that become addresses, headers and paths, and the variables that replace them. */
const OPTIONS = {
  url: { kind: variable.baseUrl('http:', 'https:'), variable: 'QUEUE_URL' },
  workerUrl: { kind: variable.baseUrl('http:', 'https:'), variable: null },
  token: { kind: variable.header(), variable: 'CASOLA_API_TOKEN' },
  queueId: { kind: variable.header(), variable: null },
  id: { kind: variable.name(256), variable: null },
  state: { kind: variable.path(), variable: 'WORKER_VLLM_STATE' },
} as const;
type Checked = keyof typeof OPTIONS;

/**
 * Checks what a command will send before the command does anything, and gives it the checked values: without blanks
 * around them, and from variables for options that are not given.
 * @throws UserError that names the option or variable, and shows no token
 */
export function checkOptions(command: Command, env: NodeJS.ProcessEnv): void {
  const shape: Record<string, z.ZodType> = {};
  const given: Record<string, string> = {};
  const attributes = new Map<string, Checked>();
  for (const option of command.options) {
    const attribute = option.attributeName() as Checked;
    const source = Object.hasOwn(OPTIONS, attribute) ? sourceOf(command, option, env) : null;
    if (source === null) continue;
    shape[source.name] = OPTIONS[attribute].kind;
    given[source.name] = source.value;
    attributes.set(source.name, attribute);
  }
  const checked = readEnvironment(z.object(shape), given);
  for (const [name, attribute] of attributes) command.setOptionValue(attribute, checked[name]);
}

/** Returns the value of an option and the name under which it was given, or null if it has none or its default. */
function sourceOf(
  command: Command,
  option: Option,
  env: NodeJS.ProcessEnv,
): { name: string; value: string } | null {
  const attribute = option.attributeName() as Checked;
  const typed: unknown = command.getOptionValue(attribute);
  if (command.getOptionValueSource(attribute) === 'cli') {
    return typeof typed === 'string' ? { name: option.long as string, value: typed } : null;
  }
  const { variable: name } = OPTIONS[attribute];
  // A command that does not need an address or a folder takes none from a variable.
  if (name === null || (attribute !== 'token' && option.defaultValue === undefined)) return null;
  const value = env[name];
  return value?.trim() ? { name, value } : null;
}

/**
 * Returns the ids of the queues that may exist, including those of this machine's workers and of callers that name
 * none, which need no permission.
 */
export function queueIds(env: NodeJS.ProcessEnv): string | undefined {
  const own = env.CASOLA_QUEUE_ID;
  return own && !env.QUEUE_IDS ? `${QUEUE_SETTINGS.queue_ids.default},${own}` : env.QUEUE_IDS;
}
