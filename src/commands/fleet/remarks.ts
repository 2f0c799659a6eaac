import * as z from 'zod';
import { mayBeFlag, WELL_KNOWN, whatBecameOf } from '../../engine/command/flag-names.ts';
import { variable } from '../../process/environment.ts';
import { isObject } from '../../protocol/fields.ts';
import { didYouMean, expectationWords, shown } from '../../protocol/schema-words.ts';
import { DRIVERS } from '../../scheduler/drivers.ts';
import { FleetSpec } from '../../scheduler/spec.ts';
import { containerShape } from '../../supervisor/variables.ts';

/** A remark on one place of a fleet's file, made of a fault that its schema found. */
export interface Remark {
  path: PropertyKey[];
  /**
   * The part of the place that the remark is about, its key or its value; if the key is missing, what is around it is
   * shown.
   */
  of: 'key' | 'value';
  text: string;
}

export function remarksOf(issues: readonly z.core.$ZodIssue[], document: unknown): Remark[] {
  return issues.flatMap((issue) => {
    if (issue.code === 'unrecognized_keys') {
      const known = knownKeys(issue.path, document);
      return issue.keys.map((key) => ({
        path: [...issue.path, key],
        of: 'key' as const,
        text: unknownKey(key, known),
      }));
    }
    const given = valueAt(document, issue.path);
    const isOfKey = issue.code === 'invalid_key' || (issue.code === 'custom' && issue.params?.of === 'key');
    const of = isOfKey || given === undefined ? 'key' : 'value';
    return [{ path: [...issue.path], of, text: textOf(issue, given) + emptyHint(issue.path, document) }];
  });
}

/**
 * Returns what to write in a file that is for aliases alone. A missing part does not count as empty, since that would
 * end all workers of a fleet.
 */
function emptyHint(path: readonly PropertyKey[], document: unknown): string {
  const [part] = path;
  const isLeftOut = path.length === 1 && (part === 'pools' || part === 'providers');
  return isLeftOut && isObject(document) && 'aliases' in document && !(part in document)
    ? `; write "${part}: {}" if you start all workers yourself`
    : '';
}

/** Returns what a document holds at a path; undefined: nothing. */
function valueAt(document: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce<unknown>((value, part) => fieldOf(value, part), document);
}

function fieldOf(value: unknown, key: PropertyKey): unknown {
  const isHeld = typeof value === 'object' && value !== null && Object.hasOwn(value, key);
  return isHeld ? (value as Record<PropertyKey, unknown>)[key] : undefined;
}

function unknownKey(key: string, known: readonly string[]): string {
  return `is not known here${didYouMean(key, known) || `; possible are ${known.join(', ')}`}`;
}

/** Returns what is wrong with a value. The schema's own messages say what was expected, but not what was given. */
function textOf({ code, message }: z.core.$ZodIssue, given: unknown): string {
  if (given === undefined && code !== 'custom' && code !== 'invalid_key') return 'is missing';
  const isWhole = code !== 'invalid_format' || message.includes(', not ');
  return isWhole ? message : `${message}, not ${shown(given)}`;
}

interface JsonSchema {
  properties?: Record<string, JsonSchema>;
  additionalProperties?: JsonSchema | false;
  items?: JsonSchema;
  oneOf?: JsonSchema[];
  const?: unknown;
}

/** Returns the names that are possible at a place of the document. */
function knownKeys(path: readonly PropertyKey[], document: unknown): string[] {
  let schema = z.toJSONSchema(FleetSpec, { io: 'input' }) as JsonSchema | undefined;
  let value = document;
  for (const part of path) {
    const named = alternativeFor(schema, value);
    schema = named?.properties?.[String(part)] ?? named?.items ?? (named?.additionalProperties || undefined);
    value = fieldOf(value, part);
  }
  const keys = Object.keys(alternativeFor(schema, value)?.properties ?? {});
  return keys.filter((key) => key !== '$schema');
}

/** Returns the alternative of a schema that fits: the driver decides which kind a provider is. */
function alternativeFor(schema: JsonSchema | undefined, value: unknown): JsonSchema | undefined {
  if (!schema?.oneOf) return schema;
  return schema.oneOf.find(({ properties }) => properties?.driver?.const === fieldOf(value, 'driver'));
}

/** The variables that a pool cannot give, with the reason: the launcher sets them from other fields. */
const SET_BY_THE_LAUNCHER: Record<string, string> = {
  CASOLA_WS_URL: 'the launcher sets it to its own queue',
  CASOLA_API_URL: 'the launcher sets it to its own queue',
  CASOLA_QUEUE_ID: 'the launcher sets it to its own queue',
  CASOLA_API_TOKEN: 'every worker gets a token of its own',
  CASOLA_CONFIG_ID: 'it is the name of the pool',
  CASOLA_INSTANCE_ID: 'every worker gets an id of its own',
  CASOLA_WORKER_ID: 'every worker gets an id of its own',
  CASOLA_CREATED_AT: 'the launcher sets it',
  CASOLA_MAX_JOBS: 'write it as "slots" of the pool',
  CASOLA_CAPACITY: 'write it as "slots" of the pool',
  MAX_CONCURRENCY: 'write it as "slots" of the pool',
  VLLM_MODEL: 'write it as "model" of the pool',
  MODEL_NAME: 'write it as "model" of the pool',
  MODEL: 'write it as "model" of the pool',
  ENGINE: 'write it as "engine" of the pool',
  ENGINE_ADAPTERS: 'write it as "adapters" of the pool',
};

/** Matches names that only this project's variables have: an unknown one is misspelt. */
const OUR_PREFIX = /^(?:CASOLA|WORKER|ENGINE)_/;
/** This project's variables that are missing from the table of the container's variables. */
const ALSO_OURS = ['LOCAL_MODEL_ARGS', 'BASE_PATH', 'LOG_FORMAT', 'WORKER_CUDA_VERSION'];

/** Returns remarks on the `env` of all pools. */
export function environmentRemarks(document: unknown): { faults: Remark[]; warnings: Remark[] } {
  const faults: Remark[] = [];
  const warnings: Remark[] = [];
  for (const [id, pool] of entriesOf(fieldOf(document, 'pools'))) {
    const engine = fieldOf(pool, 'engine');
    const shape = containerShape({ ENGINE: typeof engine === 'string' ? engine : undefined });
    for (const [name, value] of entriesOf(fieldOf(pool, 'env'))) {
      const path = ['pools', id, 'env', name];
      const fault = nameFault(name, shape);
      const wrong = fault === null ? valueFault(name, value, shape) : null;
      if (fault !== null) faults.push({ path, of: 'key', text: fault });
      else if (wrong !== null) faults.push({ path, of: 'value', text: wrong });
      else for (const text of nameWarnings(name)) warnings.push({ path, of: 'key', text });
    }
  }
  return { faults, warnings };
}

/**
 * Returns remarks on secrets that the environment lacks, or that cannot be used. They need not be set here, because
 * the launcher may run elsewhere.
 */
export function secretRemarks(document: unknown, env: NodeJS.ProcessEnv): Remark[] {
  const remark = (path: PropertyKey[], name: unknown, shape: z.ZodRawShape): Remark[] => {
    if (typeof name !== 'string') return [];
    const text = env[name]?.trim()
      ? unusable(name, env[name], shape)
      : `${name} is not set in this environment; it must be set where the launcher runs`;
    return text === null ? [] : [{ path, of: 'value', text }];
  };
  const ofPools = entriesOf(fieldOf(document, 'pools')).flatMap(([id, pool]) => {
    const secrets = fieldOf(pool, 'secrets');
    const names: unknown[] = Array.isArray(secrets) ? secrets : [];
    const shape = containerShape({});
    return names.flatMap((name, index) => remark(['pools', id, 'secrets', index], name, shape));
  });
  const ofProviders = entriesOf(fieldOf(document, 'providers')).flatMap(([id, provider]) => {
    const field = ['api_key_variable', 'token_variable'].find(
      (name) => fieldOf(provider, name) !== undefined,
    );
    const key = (path: PropertyKey[], name: unknown) =>
      remark(path, name, { [String(name)]: variable.header() });
    if (field !== undefined) return key(['providers', id, field], fieldOf(provider, field));
    const facts = fieldOf(DRIVERS, String(fieldOf(provider, 'driver')));
    return key(['providers', id, 'driver'], fieldOf(facts, 'keyVariable'));
  });
  return [...ofProviders, ...ofPools];
}

function nameFault(name: string, shape: z.ZodRawShape): string | null {
  if (Object.hasOwn(SET_BY_THE_LAUNCHER, name)) return `cannot be set here: ${SET_BY_THE_LAUNCHER[name]}`;
  const known = [...Object.keys(shape), ...ALSO_OURS];
  if (!OUR_PREFIX.test(name) || known.includes(name)) return null;
  return `is no variable of a worker${didYouMean(name, known)}`;
}

/**
 * Returns warnings about a name that no table has. Only the engine knows its flags, and only a driver or a library its
 * variables.
 */
function nameWarnings(name: string): string[] {
  const became = whatBecameOf(name);
  if (became !== null) return [`newer engines have no such flag: ${became}`];
  if (WELL_KNOWN.has(name) || !mayBeFlag(name)) return [];
  const hint = didYouMean(name, WELL_KNOWN);
  return hint ? [`will be taken for a flag of the engine${hint}`] : [];
}

/** Returns why a secret cannot be used where it goes, without quoting it; null: it can be used. */
function unusable(name: string, value: string, shape: z.ZodRawShape): string | null {
  const parsed = Object.hasOwn(shape, name)
    ? (shape[name] as z.ZodType).safeParse(value, { error: expectationWords })
    : null;
  if (parsed?.error === undefined) return null;
  return `${name} cannot be used as it is set in this environment: ${parsed.error.issues[0]?.message}`;
}

function valueFault(name: string, value: unknown, shape: z.ZodRawShape): string | null {
  const schema = Object.hasOwn(shape, name) ? (shape[name] as z.ZodType) : undefined;
  const isPlain = typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean';
  if (schema === undefined || !isPlain || String(value).trim() === '') return null;
  const parsed = schema.safeParse(String(value), { error: expectationWords });
  return parsed.success ? null : `${parsed.error.issues[0]?.message}, not ${shown(value)}`;
}

function entriesOf(value: unknown): [string, unknown][] {
  return isObject(value) ? Object.entries(value) : [];
}
