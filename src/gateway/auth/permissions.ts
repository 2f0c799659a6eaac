import type { AliasTable } from '../../aliases/alias.ts';
import { targetsOf } from '../../aliases/resolve.ts';
import { matchesPattern, plainPath } from '../../protocol/index.ts';
import type { BodyFacts } from '../../request-facts/body-facts.ts';
import type { TokenEntry } from '../../settings/token-entry.ts';
import { HttpError } from '../errors.ts';

/** The priority of a request that names none. */
const USUAL = 0;
const HIGHEST = 1000;
/** The priority of OpenAI's `service_tier: "flex"`: below interactive work, above the lines of batches. */
const FLEX = -5;

/** The priorities, models and routes that a caller may request: no caller moves to the front by asking for it. */
export interface Permissions {
  /** The highest priority of the caller's requests and jobs. */
  highest: number;
  /** The priority of the caller's requests and jobs that name none. */
  usual: number;
  /** The name of the caller's token; null where no tokens are configured. */
  name: string | null;
  /** Patterns of the models that the caller may ask for; null for all. */
  models: readonly string[] | null;
  /** Patterns of the paths that the caller may request; null for all of its scopes. */
  routes: readonly string[] | null;
}

/**
 * Returns what a caller may request. Without tokens, and with the scope admin, it may ask for any priority, unless its
 * token's entry says otherwise.
 */
export function permissionsOf(entry: TokenEntry | null, aliases: AliasTable): Permissions {
  const isBound = entry !== null && !entry.scopes.includes('admin');
  const name = entry?.name ?? null;
  const highest = entry?.highest_priority ?? (isBound ? USUAL : HIGHEST);
  const usual = Math.min(entry?.default_priority ?? USUAL, highest);
  return { highest, usual, name, models: modelPatterns(entry, aliases), routes: entry?.routes ?? null };
}

/**
 * Returns patterns of the models that a token is for, and the aliases whose every model is one of them; null for all
 * models.
 */
function modelPatterns(entry: TokenEntry | null, aliases: AliasTable): string[] | null {
  if (!entry?.models) return null;
  const { models } = entry;
  const isAllowed = (model: string) => models.some((pattern) => matchesPattern(pattern, model));
  const byTargets = Object.keys(aliases).filter(
    (alias) => !isAllowed(alias) && targetsOf(aliases, alias).every(isAllowed),
  );
  return [...models, ...byTargets];
}

/**
 * Returns the error for the models that a request names, in whichever places it may, or null. Where a token is for
 * some models alone, a request must name one: it would go to any that is there.
 */
export function modelProblem(asked: readonly unknown[], { models, name }: Permissions): HttpError | null {
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
  { models, name }: Permissions,
): HttpError | null {
  if (models === null || adapterField === null) return null;
  const message = `${adapterField}: the token "${name}" is for ${models.join(', ')} alone, and this names an adapter beside the model: name it as the model.`;
  return new HttpError(403, message, 'model_denied');
}

/**
 * Returns the error that forbids a path to a token, or null.
 * @param path with or without a query; null where the request names none
 */
export function routeProblem(path: string | null, { name, routes }: Pick<Permissions, 'name' | 'routes'>) {
  if (routes === null || path === null) return null;
  const plain = plainPath(path);
  if (routes.some((pattern) => matchesPattern(pattern, plain))) return null;
  const message = `The token "${name}" is for ${routes.join(', ')} alone, not ${plain}.`;
  return new HttpError(403, message, 'route_denied');
}

/** The routes that take jobs and batches, and those that only report. Engines answer all others. */
const QUEUE_ROUTES = /^\/(?:api|v2(?!\/(?:embed|rerank))|v1\/(?:batches|files|models|organization))(?![\w-])/;

/**
 * Returns the error that forbids a token to ask an engine for a path in a job or a line of a batch, or null. A token
 * whose routes include none that engines answer may ask for any path in its jobs.
 * @param path as for `routeProblem`
 */
export function jobRouteProblem(path: string | null, permissions: Pick<Permissions, 'name' | 'routes'>) {
  const isForJobs = permissions.routes?.every((pattern) => QUEUE_ROUTES.test(pattern));
  return isForJobs ? null : routeProblem(path, permissions);
}

/**
 * Returns the priority of a request whose caller waits: the one it asks of the engine, else that of its service tier.
 * @param asked priorities for the engine, as the caller wrote them; the first whole number counts
 * @param tier OpenAI's `service_tier`
 * @throws HttpError 403 for more than the token may ask for
 */
export function requestPriority(
  asked: readonly unknown[],
  tier: string | null,
  permissions: Permissions,
): number {
  const problem = asked.map((value) => enginePriorityProblem(value, permissions)).find(Boolean);
  if (problem) throw problem;
  const named = asked.map(numberOf).find(Number.isInteger);
  if (named !== undefined) return Math.max(0 - named, -HIGHEST);
  if (tier === 'priority') return permissions.highest;
  return tier === 'flex' ? Math.min(FLEX, permissions.usual) : permissions.usual;
}

/** Returns the error for a job's priority, or null. */
export function priorityProblem(asked: number, { highest, name }: Permissions): HttpError | null {
  return asked <= highest ? null : denied(`priority: the token "${name}" may ask for ${highest} at most`);
}

/**
 * Returns the error for the priority that a request asks of an engine, or null.
 * @param value the priority as the caller wrote it, in a header or a body: vLLM reads texts and fractions as numbers
 * too
 */
export function enginePriorityProblem(
  value: unknown,
  { highest, name }: Pick<Permissions, 'highest' | 'name'>,
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
