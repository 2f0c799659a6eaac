import { UserError } from '../../process/index.ts';
import { MASK, secretHider } from '../../process/secrets.ts';
import type { EngineDescription, EngineFailure } from '../kinds/description.ts';
import { isWellKnown, mayBeFlag, nearest, whatBecameOf } from './flag-names.ts';
import type { Flag } from './learn-flags.ts';

/** Words of a command line that belong together, and their source. */
export interface Argument {
  words: string[];
  /** The flag, with its dashes; null for words that are no flag, such as the model. */
  flag: string | null;
  /** The source for people: a variable, a file, `VLLM_EXTRA_ARGS`. */
  from: string;
}

/** Arguments and variables that an engine gets by default; arguments that somebody asked for take precedence. */
export interface DefaultArguments {
  arguments: Argument[];
  env: Record<string, string>;
}

export interface FlagArguments {
  arguments: Argument[];
  warnings: string[];
}

/** Returns the names that could be flags, to be looked up in the engine's own list; empty: the list is not needed. */
export function flagCandidates(env: NodeJS.ProcessEnv): string[] {
  return Object.keys(env)
    .filter((name) => mayBeFlag(name) && env[name]?.trim())
    .sort();
}

/**
 * Returns each variable whose name is a flag in capitals, as that flag, and vLLM's variables as the engine's own flags
 * for the same thing.
 * @param origins the source of a variable, if that is not its name
 * @throws UserError naming every switch that is neither on nor off, and every value that cannot be rewritten
 */
export function argumentsFromEnvironment(
  env: NodeJS.ProcessEnv,
  flags: readonly Flag[],
  origins: ReadonlyMap<string, string>,
  { vllmVariables = {} }: Pick<EngineDescription, 'vllmVariables'> = {},
): FlagArguments {
  const byVariable = new Map(flags.flatMap((flag) => variablesOf(flag).map((name) => [name, flag] as const)));
  const taken: Argument[] = [];
  const warnings: string[] = [];
  const wrong: string[] = [];
  for (const name of flagCandidates(env)) {
    const flag = byVariable.get(name);
    const from = origins.get(name) ?? name;
    const rewritten = vllmVariables[name];
    if (rewritten) {
      try {
        for (const words of rewritten(env[name]!.trim(), env)) taken.push({ words, flag: words[0]!, from });
      } catch (error) {
        wrong.push(`  ${from}=${JSON.stringify(env[name])}: ${(error as Error).message}`);
      }
      continue;
    }
    if (!flag) {
      const warning = warningOf(name, from, byVariable.keys());
      if (warning) warnings.push(warning);
      continue;
    }
    const words = wordsOf(flag, env[name]!.trim());
    if (words === null) wrong.push(`  ${from}=${JSON.stringify(env[name])}: expected true, false, 1 or 0`);
    else if (words.length > 0) taken.push({ words, flag: flag.name, from });
  }
  if (wrong.length > 0) throw new UserError(`Variables for the engine need attention:\n${wrong.join('\n')}`);
  return { arguments: taken, warnings };
}

/** Groups words such as those of `VLLM_EXTRA_ARGS` into a flag and what follows it. */
export function groupArguments(words: readonly string[], from: string, flags: readonly Flag[]): Argument[] {
  const full = new Map(flags.flatMap((flag) => flag.otherNames.map((name) => [name, flag.name] as const)));
  const groups: Argument[] = [];
  for (const word of words) {
    const name = /^--?[a-zA-Z][\w-]*/.exec(word)?.[0];
    if (name === undefined && groups.length > 0 && groups.at(-1)!.flag !== null)
      groups.at(-1)!.words.push(word);
    else groups.push({ words: [word], flag: name === undefined ? null : nameOf(name, full), from });
  }
  return groups;
}

/**
 * Returns `later`, preceded by the arguments of `earlier` that `later` does not set: the engine would read both, and
 * fail on either.
 */
export function overriding(earlier: readonly Argument[], later: readonly Argument[]): Argument[] {
  const said = new Set(later.map(({ flag }) => flag && positive(flag)));
  return [...earlier.filter(({ flag }) => flag === null || !said.has(positive(flag))), ...later];
}

/**
 * Removes the flags that our own arguments set, since the worker relies on those.
 * @returns the rest, and a warning for each removed flag with another value
 */
export function leavingOurs(said: readonly Argument[], ours: readonly Argument[]): FlagArguments {
  const rest: Argument[] = [];
  const warnings: string[] = [];
  for (const argument of said) {
    const own = ours.find(({ flag }) => flag !== null && flag === argument.flag);
    if (!own) rest.push(argument);
    else if (own.words.join(' ') !== argument.words.join(' '))
      warnings.push(`${argument.from} is ignored: ${own.from} sets ${own.flag}`);
  }
  return { arguments: rest, warnings };
}

/** Matches vLLM's and SGLang's flags that say how GPUs are used. */
const HOW_THE_GPUS_ARE_USED =
  /^(?:--[\w-]*-parallel-size(?:-local)?|--config|-tp|-pp|-dp|-dcp|-pcp|--[tpd]p(?:-size)?|--device-ids)$/;

/** Returns the flag that uses all visible GPUs, unless an argument says how they are used or the engine does by itself. */
export function defaultParallelism(
  { gpusFlag: flag }: Pick<EngineDescription, 'gpusFlag'>,
  said: readonly Argument[],
  gpus: number,
): Argument[] {
  if (!flag || gpus < 2) return [];
  if (said.some((argument) => argument.flag !== null && HOW_THE_GPUS_ARE_USED.test(argument.flag))) return [];
  return [{ words: [flag, String(gpus)], flag, from: `${gpus} visible GPUs` }];
}

/** Returns one name for `--no-x` and `--x`, which set the same thing. */
function positive(flag: string): string {
  return flag.replace(/^--no-/, '--');
}

/** Returns a flag's full name; vLLM takes `--max_model_len` and short forms too. */
function nameOf(written: string, full: ReadonlyMap<string, string>): string {
  const name = written.startsWith('--') ? written.replaceAll('_', '-') : written;
  return full.get(name) ?? name;
}

function variablesOf(flag: Flag): string[] {
  return [flag.name, ...flag.otherNames]
    .filter((name) => name.startsWith('--'))
    .map((name) => name.slice(2).replaceAll('-', '_').toUpperCase());
}

/** Returns the words of a flag and its value; null: the value does not fit the flag. */
function wordsOf(flag: Flag, value: string): string[] | null {
  if (flag.kind === 'switch' || flag.kind === 'present') {
    const isOn = { true: true, '1': true, false: false, '0': false }[value.toLowerCase()];
    if (isOn === undefined) return null;
    if (isOn) return [flag.name];
    return flag.kind === 'switch' ? [`--no-${flag.name.slice(2)}`] : [];
  }
  if (flag.kind === 'list') return [flag.name, ...listIn(value)];
  // A word that begins with a dash would be read as another flag.
  return value.startsWith('-') ? [`${flag.name}=${value}`] : [flag.name, value];
}

/** Splits `a,b`, a JSON list, or one JSON object, whose commas do not separate. */
function listIn(value: string): string[] {
  if (/^[[{]/.test(value)) {
    try {
      const parsed: unknown = JSON.parse(value);
      if (!Array.isArray(parsed)) return [value];
      return parsed.map((each) => (typeof each === 'string' ? each : JSON.stringify(each)));
    } catch {
      return [value];
    }
  }
  return value
    .split(',')
    .map((each) => each.trim())
    .filter(Boolean);
}

function warningOf(name: string, from: string, known: Iterable<string>): string | null {
  const became = whatBecameOf(name);
  if (became !== null) return `${from} is ignored: the engine has no such flag (any more); ${became}`;
  const meant = nearest(name, known);
  if (meant.length > 0) {
    return `${from} is ignored: the engine has no such flag; did you mean ${meant.join(' or ')}?`;
  }
  if (!isWellKnown(name)) return null;
  return `${from} is ignored: the engine has no such flag; if it has another name for it, set that`;
}

/** Rewrites a failure for whoever set the value: it names the variable instead of the flag made from it. */
export function inVariables(
  failure: EngineFailure,
  lastLines: readonly string[],
  given: readonly Argument[],
): EngineFailure {
  if (failure.kind !== 'bad_configuration') return failure;
  const refused = refusedIn(lastLines, given);
  if (refused) {
    const { argument, message } = refused;
    return {
      kind: failure.kind,
      cause: `the engine does not accept ${argument.from} (${argument.flag}): ${message}`,
      advice: `Correct ${argument.from}.`,
    };
  }
  const named = /--[\w-]+/.exec(failure.cause)?.[0];
  const argument = given.find(({ flag }) => flag !== null && flag === named);
  if (!argument || argument.from === 'VLLM_EXTRA_ARGS') return failure;
  const { from } = argument;
  return {
    kind: failure.kind,
    cause: failure.cause.replace(named!, `${from} (${named})`),
    advice: failure.advice.replace(`${named} in VLLM_EXTRA_ARGS`, from).replaceAll('VLLM_EXTRA_ARGS', from),
  };
}

interface Refused {
  argument: Argument;
  message: string;
}

function refusedIn(lines: readonly string[], given: readonly Argument[]): Refused | null {
  const find = (flag: string) => given.find((each) => each.flag === flag);
  for (const line of lines) {
    // argparse writes `error: argument --tensor-parallel-size/-tp: invalid int value: 'x'`, and llama.cpp
    // `error while handling argument "--ctx-size": stoi`, after the C++ function that failed.
    const [, names, message] =
      /error(?:: argument| while handling argument) "?([^\s"]+)"?: (?:error: )?(.*)/.exec(line) ?? [];
    const argument = names?.split('/').map(find).find(Boolean);
    if (argument) return { argument, message: message!.trim().replace(/^sto\w+$/, 'it expects a number') };
  }
  // pydantic writes `2 validation errors for SchedulerConfig`, then for each a line with the name and one with the
  // reason.
  const start = lines.findIndex((line) => /validation errors? for \w+Config/.test(line));
  if (start < 0) return null;
  for (let at = start + 1; at + 1 < lines.length; at++) {
    const field = /^\s*(?:\([^)]*\)\s*(?:ERROR \S+ \S+ \[[^\]]*\]\s*)?)?([a-z]\w*)$/.exec(lines[at]!)?.[1];
    const argument = field && find(`--${field.replaceAll('_', '-')}`);
    if (argument) return { argument, message: reasonIn(lines[at + 1]!) };
  }
  return null;
}

/** Returns the reason in a line such as `  Input should be greater than 0 [type=greater_than, input_value=0, ...]`. */
function reasonIn(line: string): string {
  return line.replace(/ \[type=.*$/, '').trim();
}

const SECRET_FLAG = /(?:^|-)(?:key|keys|token|secret|password)$/;

/** Returns the words of an argument with its secrets masked. */
export function masked({ words, flag }: Argument, env: NodeJS.ProcessEnv): string[] {
  if (flag === null || !SECRET_FLAG.test(flag)) return words.map(secretHider(env));
  const [first = '', ...values] = words;
  return [first.replace(/=.*/s, `=${MASK}`), ...values.map(() => MASK)];
}
