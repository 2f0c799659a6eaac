import { queueVariables } from '../host/node/settings.ts';
import { closestName } from '../protocol/spelling.ts';
import { containerShape } from '../supervisor/variables.ts';

/** What the names of our variables begin with. */
const OURS = /^(?:CASOLA|ENGINE|GATEWAY|QUEUE|VLLM|WORKER)_/;
/** Fewer than for a typed word: of vLLM's own 300 names none is so near to one of ours. */
const MOST_LETTERS_OFF = 2;
/** Read by commands that have options for them. */
const OF_COMMANDS = ['QUEUE_URL'];

/** A line for each variable that nothing reads and that is spelt almost like one that something does. */
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
