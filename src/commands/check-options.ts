import type { Command } from 'commander';
import * as z from 'zod';
import { readEnvironment, variable } from '../process/environment.ts';

/** Options that become addresses and headers, and the variables that stand in for them. */
const OPTIONS = {
  url: { kind: variable.baseUrl('http:', 'https:'), variable: 'QUEUE_URL' },
  workerUrl: { kind: variable.baseUrl('http:', 'https:'), variable: null },
  token: { kind: variable.header(), variable: 'CASOLA_API_TOKEN' },
  queueId: { kind: variable.header(), variable: null },
} as const;

/**
 * Checks what a command will send before it does anything.
 * @throws UserError that names the option or variable, and shows no token
 */
export function checkOptions(command: Command, env: NodeJS.ProcessEnv): void {
  const shape: Record<string, z.ZodType> = {};
  const given: Record<string, string> = {};
  for (const option of command.options) {
    const known = OPTIONS[option.attributeName() as keyof typeof OPTIONS];
    if (!known) continue;
    const isTyped = command.getOptionValueSource(option.attributeName()) === 'cli';
    const name = isTyped || known.variable === null ? (option.long as string) : known.variable;
    const value = isTyped ? command.getOptionValue(option.attributeName()) : env[name];
    if (typeof value !== 'string') continue;
    shape[name] = known.kind.optional();
    given[name] = value;
  }
  readEnvironment(z.object(shape), given);
}
