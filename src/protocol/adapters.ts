import * as z from 'zod';
import { KNOWN_MODELS_PER_WORKER } from './bounds.ts';

/**
 * The most adapters of one worker: more would leave no room for its models among the names that are remembered of it.
 */
const MOST_ADAPTERS = KNOWN_MODELS_PER_WORKER - 4;

const name = z.string().min(1).max(256);
const names = z.array(name).max(MOST_ADAPTERS);

/** A LoRA adapter as its operator lists it (`ENGINE_ADAPTERS`, `adapters` of a pool). Callers know its name alone. */
export const Adapter = z.strictObject({
  name: name.describe('What callers ask for as their model.'),
  source: z
    .string()
    .min(1)
    .max(1024)
    .regex(/^(\/.+|\w[\w.-]*\/\w[\w.-]*)$/, 'expected an absolute path, or owner/name')
    .describe('A folder of the worker’s machine, by its absolute path, or owner/name on Hugging Face.'),
  revision: z
    .string()
    .regex(/^\w[\w.-]*(\/\w[\w.-]*)*$/, 'expected a branch, a tag or a commit')
    .max(256)
    .optional()
    .describe('Of a repository: a branch, a tag or a commit; left out: main.'),
});
export type Adapter = z.infer<typeof Adapter>;

/** All adapters of a worker or a pool, each name once. */
export const Adapters = z
  .array(Adapter)
  .max(MOST_ADAPTERS)
  .refine((list) => new Set(list.map(({ name }) => name)).size === list.length, {
    error: 'expected each name once',
  });

/** A worker's report of its adapters, the whole state each time. */
export const AdapterState = z.object({
  /** The names of all adapters that the worker can load. */
  names,
  /** The names of the adapters that its engine has loaded, the least recently used first. */
  loaded: names,
  /** The most adapters loaded at once; to load another one, the worker unloads the first that is not in use. */
  room: z.number().int().min(1),
  /** The adapters that could not be loaded, until the next try. */
  failed: z.array(z.object({ name, reason: z.string().max(1000) })).max(MOST_ADAPTERS),
});
export type AdapterState = z.infer<typeof AdapterState>;
