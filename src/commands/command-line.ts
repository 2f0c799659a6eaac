import type { Command } from 'commander';

/** The options that the command lines of all commands share. */

export const DEFAULT_QUEUE_URL = 'http://127.0.0.1:8788';
export const DEFAULT_STATE = '.worker-vllm';

/** Ends the process at once with the command's code: a child that is stuck must not keep it. */
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
