import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { UserError } from '../../process/index.ts';

/**
 * Names that people know from other workers, with the name that we or the engine have for the same thing; the first one
 * given counts.
 */
const FAMILIAR: readonly [familiar: string, name: string][] = [
  ['MODEL_NAME', 'VLLM_MODEL'],
  ['MODEL', 'VLLM_MODEL'],
  ['MODEL_REVISION', 'REVISION'],
  ['TOKENIZER_NAME', 'TOKENIZER'],
  ['OPENAI_SERVED_MODEL_NAME_OVERRIDE', 'SERVED_MODEL_NAME'],
  ['OPENAI_RESPONSE_ROLE', 'RESPONSE_ROLE'],
  ['CUSTOM_CHAT_TEMPLATE', 'CHAT_TEMPLATE'],
  ['MAX_MODEL_LENGTH', 'MAX_MODEL_LEN'],
  ['VLLM_CONFIG_FILE', 'CONFIG'],
  ['MAX_CONCURRENCY', 'CASOLA_MAX_JOBS'],
];
export const FAMILIAR_NAMES: ReadonlySet<string> = new Set(FAMILIAR.map(([familiar]) => familiar));

/** Variables of other workers for which this one has no use, and why. */
const OF_NO_USE: Record<string, string> = {
  WORKER_CUDA_VERSION: 'an image has the CUDA of its engine, which its tag says',
  REQUEST_TIMEOUT: 'executionTimeout of a job or of its endpoint bounds it',
  VLLM_BASE_URL:
    'VLLM_HOST and VLLM_PORT say where the engine listens, ENGINE_URL names one that runs already',
};
export const NAMES_OF_NO_USE: ReadonlySet<string> = new Set(Object.keys(OF_NO_USE));

/** Returns why a name is ignored; undefined: it is not. */
export function whyOfNoUse(name: string): string | undefined {
  return OF_NO_USE[name];
}

/** The values by which RunPod's forms say that a variable is not set. */
const UNSET: Record<string, string> = { MAX_NUM_BATCHED_TOKENS: '0', QUANTIZATION: 'None' };

/** The volume that RunPod mounts, and the folder on it that keeps models. */
const VOLUME = '/runpod-volume';
const MODEL_CACHE = 'huggingface-cache';
/** A file that is written when a model is put into an image. */
const BAKED_FILE = '/local_model_args.json';

/** The variables of environment and image, under the names that the other parts of the program know. */
export interface SettledEnvironment {
  env: NodeJS.ProcessEnv;
  /** The sources of values that did not come from the variable of that name, for people. */
  origins: ReadonlyMap<string, string>;
  warnings: string[];
}

/**
 * Returns the environment, beneath it what a baked image brings, with familiar names replaced by ours.
 * @throws UserError when the baked file cannot be read
 */
export function readSettledEnvironment(env: NodeJS.ProcessEnv): SettledEnvironment {
  const file = env.LOCAL_MODEL_ARGS?.trim() || BAKED_FILE;
  return settleEnvironment(env, readBaked(file), file, existsSync);
}

/** Merges environment and baked variables; pure. @param baked variables that the image was built with, from `file` */
export function settleEnvironment(
  env: NodeJS.ProcessEnv,
  baked: Record<string, string>,
  file: string,
  exists: (path: string) => boolean,
): SettledEnvironment {
  const warnings: string[] = [];
  const upper = inOurNames(env, '', warnings);
  const lower = withoutOtherModel(upper, inOurNames(baked, ` in ${file}`, warnings), file, warnings);
  // The environment's name for the model takes precedence over the image's, by whichever name of ours.
  if (upper.env.VLLM_SERVED_MODEL_NAME !== undefined) delete lower.env.SERVED_MODEL_NAME;
  const origins = new Map([...lower.origins, ...upper.origins]);
  for (const name of Object.keys(upper.env)) if (!upper.origins.has(name)) origins.delete(name);
  // An empty variable stays where nothing lies beneath it: an empty CUDA_VISIBLE_DEVICES means no GPU.
  const merged: NodeJS.ProcessEnv = { ...env, ...lower.env, ...upper.env };
  for (const [name, unset] of Object.entries(UNSET)) if (merged[name]?.trim() === unset) delete merged[name];
  const base = merged.BASE_PATH?.trim() || (exists(VOLUME) ? VOLUME : null);
  if (base !== null && !merged.HF_HOME?.trim()) {
    merged.HF_HOME = join(base, MODEL_CACHE);
    origins.set('HF_HOME', merged.BASE_PATH?.trim() ? 'BASE_PATH' : VOLUME);
  }
  const { ENGINE, ENGINE_URL } = merged;
  if (ENGINE?.trim() && ENGINE !== 'external' && ENGINE_URL?.trim()) {
    warnings.push(
      `ENGINE_URL is ignored: ENGINE=${ENGINE} starts an engine here; leave ENGINE out to attach to the one that runs there`,
    );
  }
  return { env: merged, origins, warnings };
}

interface Layer {
  env: NodeJS.ProcessEnv;
  origins: Map<string, string>;
}

/** Returns variables under our names. Empty variables count as unset, as they would hide what lies beneath. */
function inOurNames(given: NodeJS.ProcessEnv, where: string, warnings: string[]): Layer {
  const isSet = ([name, value]: [string, string | undefined]) =>
    value?.trim() && value.trim() !== UNSET[name];
  const env = Object.fromEntries(Object.entries(given).filter(isSet));
  const origins = new Map(where ? Object.keys(env).map((name) => [name, name + where]) : []);
  for (const [familiar, name] of FAMILIAR) {
    const value = env[familiar];
    if (value === undefined) continue;
    // MAX_CONCURRENCY and CASOLA_CAPACITY are both other names of CASOLA_MAX_JOBS.
    if (familiar === 'MAX_CONCURRENCY' && env.CASOLA_CAPACITY !== undefined) continue;
    if (env[name] === undefined) {
      env[name] = value;
      origins.set(name, familiar + where);
    } else if (env[name] !== value) {
      warnings.push(`${familiar}${where} is ignored: ${origins.get(name) ?? name} says something else`);
    }
  }
  for (const [name, why] of Object.entries(OF_NO_USE)) {
    if (env[name] !== undefined) warnings.push(`${name}${where} is ignored: ${why}`);
  }
  return { env, origins };
}

/** Drops what was baked if another model is asked for: it would be wrong for that model. */
function withoutOtherModel(upper: Layer, baked: Layer, file: string, warnings: string[]): Layer {
  const asked = upper.env.VLLM_MODEL;
  if (asked === undefined || baked.env.VLLM_MODEL === undefined) return baked;
  if (asked === baked.env.VLLM_MODEL) return baked;
  if (asked === baked.env.SERVED_MODEL_NAME) {
    // The environment names the baked model by its public name, so its files are here.
    delete upper.env.VLLM_MODEL;
    upper.origins.delete('VLLM_MODEL');
    return baked;
  }
  warnings.push(
    `${upper.origins.get('VLLM_MODEL') ?? 'VLLM_MODEL'} names another model than the one in this image: ${file} is ignored`,
  );
  return { env: {}, origins: new Map() };
}

function readBaked(file: string): Record<string, string> {
  if (!existsSync(file)) return {};
  let parsed: unknown;
  try {
    parsed = JSON.parse(readFileSync(file, 'utf8'));
  } catch (error) {
    throw new UserError(`${file} cannot be read: ${(error as Error).message}. Build the image again.`);
  }
  if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed)) {
    throw new UserError(`${file} holds no JSON object of variables. Build the image again.`);
  }
  const given = Object.entries(parsed).filter(([, value]) => value !== null);
  return Object.fromEntries(
    given.map(([name, value]) => [name, typeof value === 'string' ? value : JSON.stringify(value)]),
  );
}
