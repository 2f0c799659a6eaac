import { queueVariables } from '../host/node/settings.ts';
import { closestName } from '../protocol/text.ts';
import { containerShape } from '../supervisor/variables.ts';

/** Matches the prefixes of our variables' names. */
const OURS = /^(?:CASOLA|ENGINE|GATEWAY|QUEUE|VLLM|WORKER)_/;
/**
 * A misspelt name differs from ours in at most this many letters, fewer than for a typed word: none of vLLM's own 300
 * names is so near to one of ours.
 */
const MOST_LETTERS_OFF = 2;
/** Further variables, which commands read if an option is not given. */
const OF_COMMANDS = [
  'QUEUE_URL',
  'GATEWAY_QUEUE',
  'GATEWAY_TOKEN',
  'GATEWAY_HOST',
  'GATEWAY_PORT',
  'GATEWAY_ADVERTISE',
];

/**
 * Returns a line for each variable that nothing reads and whose name is almost that of a variable that something reads.
 */
export function misspeltVariables(env: NodeJS.ProcessEnv): string[] {
  const known = new Set([
    ...Object.keys(containerShape(env)),
    ...Object.keys(queueVariables),
    ...OF_COMMANDS,
  ]);
  return Object.keys(env)
    .filter((name) => OURS.test(name) && !known.has(name) && env[name]?.trim())
    .map((name) => ({ name, meant: closestName(name, known, MOST_LETTERS_OFF) }))
    .filter(({ meant }) => meant !== null)
    .map(({ name, meant }) => `${name} is ignored: there is no such variable; did you mean ${meant}?`);
}
