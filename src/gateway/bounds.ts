import { matchesPattern } from '../protocol/index.ts';
import type { BodyFacts } from '../request-facts/body-facts.ts';
import type { TokenEntry } from '../settings/token-entry.ts';
import { HttpError } from './errors.ts';
import type { ModelAliases } from './model-aliases.ts';

/** The priority of a request that names none. */
const USUAL = 0;
const HIGHEST = 1000;
/** The priority of OpenAI's `service_tier: "flex"`: below interactive work, above the lines of batches. */
const FLEX = -5;

/** What a caller may ask of the queue and of engines: no caller moves to the front by asking for it. */
export interface Bounds {
  /** Highest priority of its requests and jobs. */
  highest: number;
  /** The priority of those that name none. */
  usual: number;
  /** The name of its token; null: no tokens are configured. */
  name: string | null;
  /** Models that it may ask for, as patterns; null: all. */
  models: readonly string[] | null;
  /** Paths that it may ask for, as patterns; null: all of its scopes. */
  routes: readonly string[] | null;
}

/** Without tokens, and with the scope admin, any priority may be asked for, unless the token's entry says otherwise. */
export function boundsOf(entry: TokenEntry | null, aliases: ModelAliases): Bounds {
  const isBound = entry !== null && !entry.scopes.includes('admin');
  const name = entry?.name ?? null;
  const highest = entry?.highest_priority ?? (isBound ? USUAL : HIGHEST);
  const usual = Math.min(entry?.default_priority ?? USUAL, highest);
  return { highest, usual, name, models: modelPatterns(entry, aliases), routes: entry?.routes ?? null };
}

/** Models that a token is for, under all names that they have; null: all models. */
function modelPatterns(entry: TokenEntry | null, aliases: ModelAliases): string[] | null {
  if (!entry?.models) return null;
  const byAlias = [...aliases.models].filter(([alias]) =>
    entry.models?.some((p) => matchesPattern(p, alias)),
  );
  return [...entry.models, ...byAlias.map(([, model]) => model)];
}

/**
 * What is wrong with the models that a request names, in whichever places it may; null: nothing. One that names none
 * would go to whatever is there.
 */
export function modelProblem(asked: readonly unknown[], { models, name }: Bounds): HttpError | null {
  if (models === null) return null;
  const named = asked.filter((model) => model !== undefined && model !== null && model !== '');
  const isAllowed = (model: unknown) => models.some((pattern) => matchesPattern(pattern, String(model)));
  const denied = named.find((model) => !isAllowed(model));
  if (named.length > 0 && denied === undefined) return null;
  const what = denied === undefined ? 'names no model' : `asks for ${JSON.stringify(denied)}`;
  const message = `model: the token "${name}" is for ${models.join(', ')} alone, and the request ${what}.`;
  return new HttpError(403, message, 'model_denied');
}

/** Returns the error for a body that names an adapter beside its model, or null where the token allows it. */
export function adapterProblem(
  { adapterField }: Pick<BodyFacts, 'adapterField'>,
  { models, name }: Bounds,
): HttpError | null {
  if (models === null || adapterField === null) return null;
  const message = `${adapterField}: the token "${name}" is for ${models.join(', ')} alone, and this names an adapter beside the model: name it as the model.`;
  return new HttpError(403, message, 'model_denied');
}

/**
 * Returns the error that forbids a path to a token, or null.
 * @param path with or without a query, or null where none is asked for
 */
export function routeProblem(path: string | null, { name, routes }: Pick<Bounds, 'name' | 'routes'>) {
  if (routes === null || path === null) return null;
  const plain = path.split('?', 1)[0]!.replace(/(?<=.)\/$/, '');
  if (routes.some((pattern) => matchesPattern(pattern, plain))) return null;
  const message = `The token "${name}" is for ${routes.join(', ')} alone, not ${plain}.`;
  return new HttpError(403, message, 'route_denied');
}

/** Routes that take jobs and batches, and those that only report. All others are answered by engines. */
const QUEUE_ROUTES = /^\/(?:api|v2(?!\/(?:embed|rerank))|v1\/(?:batches|files|models|organization))(?![\w-])/;

/**
 * Returns the error that forbids a token to ask an engine for a path in a job or a line of a batch, or null. A token
 * whose routes name none that engines answer is for whatever its jobs ask for.
 * @param path as for `routeProblem`
 */
export function jobRouteProblem(path: string | null, bound: Pick<Bounds, 'name' | 'routes'>) {
  const isForJobs = bound.routes?.every((pattern) => QUEUE_ROUTES.test(pattern));
  return isForJobs ? null : routeProblem(path, bound);
}

/**
 * Priority of a request whose caller waits: what it asks of the engine, else what its service tier stands for.
 * @param asked of the engine, as its caller wrote it; the first that is a whole number counts
 * @param tier OpenAI's `service_tier`
 * @throws HttpError 403 for more than the token may ask for
 */
export function requestPriority(asked: readonly unknown[], tier: string | null, bound: Bounds): number {
  const problem = asked.map((value) => enginePriorityProblem(value, bound)).find(Boolean);
  if (problem) throw problem;
  const named = asked.map(numberOf).find(Number.isInteger);
  if (named !== undefined) return Math.max(0 - named, -HIGHEST);
  if (tier === 'priority') return bound.highest;
  return tier === 'flex' ? Math.min(FLEX, bound.usual) : bound.usual;
}

/** What is wrong with a job's priority; null: nothing. */
export function priorityProblem(asked: number, { highest, name }: Bounds): HttpError | null {
  return asked <= highest ? null : denied(`priority: the token "${name}" may ask for ${highest} at most`);
}

/**
 * What is wrong with the priority that is asked of an engine; null: nothing.
 * @param value as the caller wrote it, in a header or a body: vLLM reads texts and fractions as numbers too
 */
export function enginePriorityProblem(
  value: unknown,
  { highest, name }: Pick<Bounds, 'highest' | 'name'>,
): HttpError | null {
  const asked = numberOf(value);
  if (Number.isNaN(asked) || asked >= -highest) return null;
  return denied(
    `priority: of the engine, where the lowest number goes first, the token "${name}" may ask for ${0 - highest} at least`,
  );
}

/**
 * Returns the number that an engine reads, or NaN where it reads none. Engines take digits and blanks beyond ASCII for
 * what they are, and a worker that makes a form of JSON takes lists apart: such texts and lists may be any number, and
 * count as the lowest.
 */
function numberOf(value: unknown): number {
  if (typeof value === 'object' && value !== null) return Number.NEGATIVE_INFINITY;
  if (typeof value === 'string' && /[^ -~]/.test(value.trim())) return Number.NEGATIVE_INFINITY;
  if (typeof value === 'string' && value.trim() !== '') return Number(value.replaceAll('_', ''));
  return typeof value === 'number' ? value : Number.NaN;
}

function denied(problem: string): HttpError {
  const message = `${problem}. Its entry may allow more: "highest_priority".`;
  return new HttpError(403, message, 'priority_denied');
}
