import type { EngineConfiguration } from '../engine/command/configuration.ts';
import { engineEnvironment, findProgram } from '../engine/command/configuration.ts';
import { defaultFlags, refuseSharedNames } from '../engine/command/default-flags.ts';
import {
  type Argument,
  argumentsFromEnvironment,
  defaultParallelism,
  flagCandidates,
  groupArguments,
  leavingOurs,
  masked,
  overriding,
} from '../engine/command/flag-arguments.ts';
import type { SettledEnvironment } from '../engine/command/flag-names.ts';
import { type Flag, type HelpProgram, learnFlags } from '../engine/command/learn-flags.ts';
import type { EngineCommand, EngineDescription, EngineSettings } from '../engine/kinds/description.ts';
import { visibleGpus } from '../engine/machine/gpus.ts';

/** The engine's command, with the source of each argument. */
export interface PreparedCommand {
  program: string;
  args: string[];
  env: NodeJS.ProcessEnv;
  /** All of `args`, in order. */
  arguments: Argument[];
  warnings: string[];
}

/** A placeholder for the model, by which its place among the words of a command is found. */
const MODEL_HERE = '\u0000model';

/**
 * Builds the engine's command from defaults, then the baked image and the environment, then VLLM_EXTRA_ARGS; later ones
 * take precedence.
 * @param say called when a step takes long
 * @param stopped ends a step that takes long; the command is then unusable
 * @returns null for an engine that is already running
 * @throws UserError: no program, a switch that is neither on nor off, or an adapter whose name something else has
 */
export async function prepareCommand(
  configuration: EngineConfiguration,
  engine: EngineDescription,
  settled: SettledEnvironment,
  say: (text: string) => void,
  stopped?: AbortSignal,
): Promise<PreparedCommand | null> {
  const { settings } = configuration;
  if (!settings || !engine.command) return null;
  const bare = engine.command({ ...settings, extraArgs: [] });
  const program = findProgram(bare.program, engine, settled.env);
  const childEnv = { ...childEnvironment(settled.env), ...bare.env };
  const warnings = [...settled.warnings];
  const flags = await flagsOf(
    { program, args: firstWords(engine, settings), env: childEnv, signal: stopped },
    settled.env,
    warnings,
    say,
  );
  const said = argumentsFromEnvironment(settled.env, flags ?? [], settled.origins, engine);
  if (flags) warnings.push(...said.warnings);
  const own = ownArguments(bare, settings, settled);
  const rest = leavingOurs(said.arguments, own);
  warnings.push(...rest.warnings);
  const extra = groupArguments(settings.extraArgs, 'VLLM_EXTRA_ARGS', flags ?? []);
  const asked = overriding(rest.arguments, extra);
  const gpus = await visibleGpus(settled.env, stopped);
  if (gpus.note && engine.usesGpu) warnings.push(gpus.note);
  const more = defaultFlags(engine, settings, configuration.adapters.length, asked, settled.env);
  const all = overriding(
    [...own, ...defaultParallelism(engine, asked, gpus.count), ...more.arguments],
    asked,
  );
  refuseSharedNames(configuration.adapters, all);
  const env = { ...childEnv, ...more.env };
  return { program, args: all.flatMap(({ words }) => words), env, arguments: all, warnings };
}

/** Returns the output of `--print-command`: a line for each argument, with its source after `#`. */
export function describeCommand(command: PreparedCommand, settled: SettledEnvironment): string {
  const lines = command.arguments.map((argument) => ({
    text: `  ${masked(argument, settled.env).map(quoted).join(' ')}`,
    from: argument.from,
  }));
  const { HF_HOME } = command.env;
  const home = HF_HOME
    ? [{ text: `HF_HOME=${quoted(HF_HOME)}`, from: settled.origins.get('HF_HOME') ?? 'HF_HOME' }]
    : [];
  const rows = [...home, { text: quoted(command.program), from: 'the program' }, ...lines];
  const width = Math.min(60, Math.max(...rows.map(({ text }) => text.length)));
  return rows.map(({ text, from }) => `${text.padEnd(width)}  # ${from}\n`).join('');
}

/** Returns the environment without variables that vLLM would report as misspelt settings of its own. */
function childEnvironment(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const { VLLM_CONFIG_FILE: _file, VLLM_CPU_FRACTION: _fraction, ...rest } = engineEnvironment(env);
  return rest;
}

/**
 * Returns the engine's flags; null: they could not be learned. The engine is asked only if a variable may be a flag.
 */
async function flagsOf(
  asked: HelpProgram,
  env: NodeJS.ProcessEnv,
  warnings: string[],
  say: (text: string) => void,
): Promise<Flag[] | null> {
  if (flagCandidates(env).length === 0) return [];
  try {
    return await learnFlags(asked, () =>
      say('asking the engine for its flags: some seconds, once per version'),
    );
  } catch (error) {
    const [cause] = (error as Error).message.split('\n');
    warnings.push(
      `the engine did not tell its flags (${cause}): no variable is made a flag, VLLM_EXTRA_ARGS still counts`,
    );
    return null;
  }
}

/** Returns the words before the model: `serve`, or a script. */
function firstWords(engine: EngineDescription, settings: EngineSettings): string[] {
  const { args } = engine.command!({ ...settings, model: MODEL_HERE, extraArgs: [] });
  const words = args.slice(0, args.indexOf(MODEL_HERE));
  return words.at(-1)?.startsWith('--') ? words.slice(0, -1) : words;
}

const VARIABLE_OF: Record<string, string> = {
  '--host': 'VLLM_HOST',
  '--port': 'VLLM_PORT',
  '--served-model-name': 'VLLM_SERVED_MODEL_NAME',
  '--alias': 'VLLM_SERVED_MODEL_NAME',
};

function ownArguments(
  command: EngineCommand,
  settings: EngineSettings,
  settled: SettledEnvironment,
): Argument[] {
  const first = command.args.indexOf(settings.model);
  // `--model M` of one engine is `--model-path M` of another and a bare word of vLLM's.
  const at = command.args[first - 1]?.startsWith('--') ? first - 1 : first;
  const modelFrom = settled.origins.get('VLLM_MODEL') ?? 'VLLM_MODEL';
  const nameOf = (name: string) =>
    settled.env[name]?.trim() ? (settled.origins.get(name) ?? name) : `default of ${name}`;
  const head = command.args.slice(0, at).map((word) => ({ words: [word], flag: null, from: 'the program' }));
  const model = command.args.slice(at, first + 1);
  const rest = groupArguments(command.args.slice(first + 1), 'worker-vllm', []).map((argument) => {
    const variable = argument.flag === null ? undefined : VARIABLE_OF[argument.flag];
    return variable ? { ...argument, from: nameOf(variable) } : argument;
  });
  return [...head, { words: model, flag: model.length > 1 ? model[0]! : null, from: modelFrom }, ...rest];
}

/** Quotes a word for a shell, or as JSON if it has line breaks, so that it stays on one line. */
function quoted(word: string): string {
  if (/^[\w@%+=:,./-]+$/.test(word)) return word;
  return /[\n\r]/.test(word) ? JSON.stringify(word) : `'${word.replaceAll("'", `'\\''`)}'`;
}
