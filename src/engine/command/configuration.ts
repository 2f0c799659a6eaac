import { accessSync, constants } from 'node:fs';
import { delimiter, join, resolve } from 'node:path';
import * as z from 'zod';
import { EXIT, readEnvironment, UserError, variable } from '../../process/index.ts';
import { dialableHost } from '../../process/network.ts';
import { type Adapter, Adapters, ENGINE_NAMES, type EngineName, parseJson } from '../../protocol/index.ts';
import type { EngineDescription, EngineSettings } from '../kinds/description.ts';
import { describeEngine } from '../kinds/index.ts';

/** The engine that the environment asks for. */
export interface EngineConfiguration {
  engine: EngineName;
  /** The engine's address, for `createEngineClient`. */
  url: string;
  /** The model as configured; null is possible for an external engine only. */
  model: string | null;
  apiKey?: string;
  startupTimeoutMs: number;
  /** The address of an engine that prefills long prompts for this one; null: there is none. */
  prefillUrl: string | null;
  /** The LoRA adapters that the worker loads into the engine. */
  adapters: readonly Adapter[];
  /** The settings of an engine that is started here; null: the engine is already running. */
  settings: EngineSettings | null;
}

/** Variables of this project, some of which have names like vLLM's own: `VLLM_PORT` would move its internal ports. */
const NOT_FOR_THE_ENGINE =
  /^(?:CASOLA_.*|ENGINE|ENGINE_.*|VLLM_(?:MODEL|HOST|PORT|STARTUP_TIMEOUT|EXTRA_ARGS|SERVE_COMMAND|SERVED_MODEL_NAME))$/;

const words = z.string().transform((text, context) => {
  try {
    return splitShellWords(text);
  } catch (error) {
    context.addIssue({
      code: 'custom',
      message: `expected words as in a shell, but ${(error as Error).message}`,
    });
    return z.NEVER;
  }
});

/** Parses a JSON list of adapters. */
const adapters = z.string().transform((text, context) => {
  const parsed = parseJson(Adapters, text);
  if (parsed.ok) return parsed.value;
  const form = '[{"name": "sql", "source": "owner/name", "revision": "main"}]';
  context.addIssue({ code: 'custom', message: `expected a list such as ${form}: ${parsed.message}` });
  return z.NEVER;
});

/** The most characters of a model's name, as in a pool of a fleet's file. */
const MODEL_CHARACTERS = 512;

/** Matches flags that would move the engine, or its metrics, to an address where the worker does not look. */
const MOVES_THE_ENGINE = /^--(?:host|port|uds|metrics[-_]port)(?==|$)/;

const extraArguments = words.refine((given) => !given.some((word) => MOVES_THE_ENGINE.test(word)), {
  error: ({ input }) => {
    const flag = (input as string[]).map((word) => MOVES_THE_ENGINE.exec(word)?.[0]).find(Boolean);
    return `expected no ${flag}: VLLM_HOST and VLLM_PORT say where the engine listens`;
  },
});

/**
 * Returns the engine's variables as a zod shape, so that a process with variables of its own can check all of them at
 * once: `readEnvironment(z.object({...engineVariables(env), ...own}), env)`. The argument is needed since the chosen
 * engine decides which variables are required.
 */
export function engineVariables(env: NodeJS.ProcessEnv) {
  const engine = chosenEngine(env);
  const isExternal = engine === 'external';
  const model = variable
    .name(MODEL_CHARACTERS)
    .describe(
      'the model to serve, a local folder or owner/name on Hugging Face; or set ENGINE_URL for an engine that runs already',
    );
  const url = variable
    .baseUrl('http:', 'https:')
    .describe('the address of the engine that runs already, e.g. http://127.0.0.1:11434');
  return {
    ENGINE: z.enum(ENGINE_NAMES, { error: `expected ${ENGINE_NAMES.join(', ')}` }).optional(),
    ENGINE_URL: isExternal ? url : url.optional(),
    ENGINE_PREFILL_URL: variable
      .baseUrl('http:', 'https:')
      .refine(() => describeEngine(engine).readsPrefilled, {
        error: `${describeEngine(engine).title} reads no cache of another engine this way: leave it out`,
      })
      .optional(),
    ENGINE_API_KEY: variable.header().optional(),
    ENGINE_ADAPTERS: adapters
      .refine((list) => list.length === 0 || describeEngine(engine).loadsAdapters, {
        error: `${describeEngine(engine).title} loads no adapters while it runs: leave it out`,
      })
      .refine((list) => namedAsModel(list, env) === null, {
        error: ({ input }) =>
          `the adapter "${namedAsModel(input as Adapter[], env)}" is named as the model or its pool, and callers would ask for both by it: give it another name`,
      })
      .default([]),
    VLLM_API_KEY: variable.header().optional(),
    FD_API_KEY: variable.header().optional(),
    LLAMA_API_KEY: variable.header().optional(),
    VLLM_MODEL: isExternal ? model.optional() : model,
    VLLM_HOST: variable.host().default('127.0.0.1'),
    // FastDeploy also takes the three ports after this one.
    VLLM_PORT: variable.port(engine === 'fastdeploy' ? 65_532 : 65_535).default(8000),
    VLLM_STARTUP_TIMEOUT: variable.seconds(1).default(120),
    VLLM_EXTRA_ARGS: extraArguments.default([]),
    VLLM_SERVE_COMMAND: words.optional(),
    VLLM_SERVED_MODEL_NAME: variable.name(MODEL_CHARACTERS).optional(),
  };
}

/**
 * Returns the name of an adapter that is also the name of the model or its pool, so that callers would ask for both by
 * it; null: there is none.
 */
function namedAsModel(list: readonly Adapter[], env: NodeJS.ProcessEnv): string | null {
  const names = [env.VLLM_MODEL, env.VLLM_SERVED_MODEL_NAME, env.CASOLA_CONFIG_ID];
  return list.find(({ name }) => names.includes(name))?.name ?? null;
}

/** Returns the engine's configuration from valid variables of `engineVariables`. */
export function engineConfiguration(
  env: z.infer<z.ZodObject<ReturnType<typeof engineVariables>>>,
): EngineConfiguration {
  const engine = chosenEngine(env);
  const { keyVariable } = describeEngine(engine);
  const shared = {
    engine,
    model: env.VLLM_MODEL ?? null,
    startupTimeoutMs: env.VLLM_STARTUP_TIMEOUT * 1000,
    prefillUrl: env.ENGINE_PREFILL_URL ?? null,
    adapters: env.ENGINE_ADAPTERS,
    apiKey: env.ENGINE_API_KEY ?? (keyVariable && env[keyVariable]),
  };
  if (engine === 'external') return { ...shared, url: env.ENGINE_URL!, settings: null };
  const [program, ...first] = env.VLLM_SERVE_COMMAND ?? [];
  return {
    ...shared,
    url: `http://${dialableHost(env.VLLM_HOST)}:${env.VLLM_PORT}`,
    settings: {
      model: env.VLLM_MODEL!,
      host: env.VLLM_HOST,
      port: env.VLLM_PORT,
      servedModelName: env.VLLM_SERVED_MODEL_NAME,
      extraArgs: env.VLLM_EXTRA_ARGS,
      serveCommand: program === undefined ? null : [program, ...first],
    },
  };
}

/**
 * Reads the engine's configuration, for a process without variables of its own.
 * @throws UserError naming every bad variable
 */
export function readEngineConfiguration(env: NodeJS.ProcessEnv): EngineConfiguration {
  return engineConfiguration(readEnvironment(z.object(engineVariables(env)), env));
}

/** Returns the environment for the engine's process: the caller's without our own variables and secrets. */
export function engineEnvironment(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !NOT_FOR_THE_ENGINE.test(name)));
}

/**
 * Returns the full path of an engine's program, from the PATH, else from a virtual environment in this folder.
 * @throws UserError (engineMissing) that says how to install it
 */
export function findProgram(program: string, engine: EngineDescription, env: NodeJS.ProcessEnv): string {
  const folders = (env.PATH ?? '').split(delimiter).filter(Boolean);
  const candidates = program.includes('/')
    ? [resolve(program)]
    : [...folders, resolve('.venv/bin'), resolve('venv/bin')].map((folder) => join(folder, program));
  const found = candidates.find(isExecutable);
  if (found) return found;
  const where = program.includes('/') ? '' : ', neither on the PATH nor in .venv/bin or venv/bin here';
  throw new UserError(
    `There is no "${program}"${where}. ${engine.installHelp ?? ''}`.trim(),
    EXIT.engineMissing,
  );
}

/** Returns the engine that an environment chooses; `vllm` also where it names one that does not exist. */
export function chosenEngine(env: { ENGINE?: string; ENGINE_URL?: string }): EngineName {
  const named = ENGINE_NAMES.find((name) => name === env.ENGINE);
  return named ?? (env.ENGINE_URL?.trim() ? 'external' : 'vllm');
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/**
 * Splits text into words as a POSIX shell does, without expansions, operators and comments: blanks separate words,
 * single quotes preserve everything, double quotes preserve everything but `\"`, `\\`, `\$` and `` \` ``, and a
 * backslash preserves the next character.
 * @throws SyntaxError when a quote is not closed or the text ends in a backslash
 */
export function splitShellWords(text: string): string[] {
  const words: string[] = [];
  /** The word so far; null between words: `''` is a word, a blank is not. */
  let word: string | null = null;
  let quote: '"' | "'" | null = null;
  for (let at = 0; at < text.length; at++) {
    const character = text[at]!;
    if (quote !== null && character === quote) {
      quote = null;
    } else if (character === '\\' && quote !== "'") {
      const next = text[++at];
      if (next === undefined) throw new SyntaxError('a backslash at the end keeps nothing');
      // A backslash before a line end joins the lines.
      if (next === '\n') continue;
      word = (word ?? '') + (quote === '"' && !'"\\$`'.includes(next) ? `\\${next}` : next);
    } else if (quote !== null) {
      word += character;
    } else if (character === '"' || character === "'") {
      quote = character;
      word ??= '';
    } else if (/\s/.test(character)) {
      if (word !== null) words.push(word);
      word = null;
    } else {
      word = (word ?? '') + character;
    }
  }
  if (quote !== null) throw new SyntaxError(`a ${quote} is not closed`);
  if (word !== null) words.push(word);
  return words;
}
