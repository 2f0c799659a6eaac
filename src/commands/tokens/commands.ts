import { UserError } from '../../process/index.ts';
import { anyOf, STORE_POLICIES, schemaWords, type TokenView, termsText } from '../../protocol/index.ts';
import { type Scope, TokenBounds, TokenChanges, TokenRequest } from '../../settings/token-entry.ts';
import { askQueueJson, type QueueTarget } from '../ask-queue.ts';
import { clean, columns, print, printNote } from '../terminal.ts';
import { LIMIT_FLAGS, type LimitOptions, limitsIn } from './limit-options.ts';
import { type NewSecret, randomName, type TokenPlace, tokensOfFolder, tokensOfQueue } from './places.ts';

/** The place of the tokens that a command handles. */
export interface PlaceOptions {
  state: string;
  /** The address of a running queue; left out: the tokens of the state folder are used. */
  url?: string;
  token?: string;
}

/** The terms that `create` and `set` accept for a token, as texts; `set` accepts `none` too. */
export interface TermOptions extends LimitOptions {
  weight?: string;
  priority?: string;
  highestPriority?: string;
  /** Patterns of models, split at the commas. */
  models?: string[];
  routes?: string[];
  /** Whether its responses are stored: `allow`, `deny` or `off`. */
  store?: string;
  /** Whether its requests are kept: `yes` or `no`. */
  keep?: string;
  storedBytes?: string;
  /** When the token expires: `90d`, `12h`, or an ISO time. */
  expires?: string;
}

export interface CreateOptions extends PlaceOptions, TermOptions {
  scope: Scope[];
  name?: string;
  tenant?: string;
  /** The id of the only worker that may use the token, or a pattern of ids, such as `runpod-*`. */
  workerId?: string;
}

/**
 * Runs `token create`: prints the token alone on stdout, so that a script can take it, and the rest on stderr.
 * @throws UserError for options that do not make a token
 */
export async function runTokenCreate(options: CreateOptions): Promise<number> {
  const { scope, workerId } = options;
  const bounds = boundsIn(options, Date.now());
  const { name = randomName(scope) } = options;
  const parsed = TokenRequest.safeParse({ ...bounds, name }, { error: schemaWords });
  if (!parsed.success) {
    const { path, message } = parsed.error.issues[0]!;
    throw new UserError(`${FIELDS[String(path[0])] ?? `--${String(path[0])}`}: ${message}.`);
  }
  const place = placeOf(options);
  const made = await place.create(name, bounds);
  const where = workerId === undefined ? '' : ` as the worker ${workerId}`;
  showOnce(made, `has the scope ${scope.join(', ')}${where}`, place);
  return 0;
}

/** Runs `token set`: changes limits, models, routes, priorities, weight or end; the secret stays. @throws UserError */
export async function runTokenSet(name: string, options: PlaceOptions & TermOptions): Promise<number> {
  const place = placeOf(options);
  const token = (await place.list()).tokens.find((one) => one.name === name);
  if (!token) throw noToken(name);
  const limits = limitsIn(options, token.limits);
  const changes = {
    ...numbersIn(options),
    ...(limits !== undefined && { limits }),
    ...boundsToChange(options, Date.now()),
  };
  if (Object.keys(changes).length === 0) {
    throw new UserError(
      `Say what to change: ${['--models', '--routes', '--expires', '--store', '--keep', ...Object.values(NUMBERS).map(({ flag }) => flag), ...LIMIT_FLAGS.map(({ flag }) => flag)].join(', ')}; "none" takes one away.`,
    );
  }
  await place.set(name, changes);
  const { models, routes, expires_at, ...terms } = { ...token, ...changes };
  const [of, paths] = [models?.join(', ') ?? 'all', routes?.join(', ') ?? 'all'];
  printNote(
    `The token "${clean(name)}" now has the limits: ${clean(termsText(terms))}; models: ${clean(of)}; routes: ${clean(paths)}; expires: ${expires_at ?? 'never'}.`,
  );
  return 0;
}

/** Runs `token list` and `token show`. */
export async function runTokenList(name: string | undefined, options: PlaceOptions & { json?: boolean }) {
  const place = placeOf(options);
  const { tokens: all, areUsesKnown } = await place.list();
  const shown = name === undefined ? all : all.filter((token) => token.name === name);
  if (name !== undefined && shown.length === 0) throw noToken(name);
  const text = options.json
    ? JSON.stringify(name === undefined ? shown : shown[0], null, 2)
    : table(shown, areUsesKnown);
  print(text);
  if (!areUsesKnown && shown.length > 0) printNote(USE_HINT);
  return 0;
}

const USE_HINT =
  'The database of the queue that says when each token was last used cannot be read: "worker-vllm state check" says why.';

/**
 * Runs `token rotate`: makes another secret and shows it as `token create` does; the old one is refused from now on.
 */
export async function runTokenRotate(name: string, options: PlaceOptions): Promise<number> {
  const place = placeOf(options);
  showOnce(await place.rotate(name), 'has a new secret; the old one is refused', place);
  return 0;
}

/**
 * Runs `token revoke`: the token's jobs continue unless `cancel` is set, and its batches in any case. @throws UserError
 */
export async function runTokenRevoke(
  name: string,
  options: PlaceOptions & { cancel?: boolean },
): Promise<number> {
  const place = placeOf(options);
  const tenant = options.cancel ? await ownTenantOf(name, place, options) : null;
  await place.revoke(name);
  printNote(`The token "${clean(name)}" is refused from now on.`);
  if (tenant === null) {
    printNote(
      'What it has stored goes on: its jobs, unless --cancel (with --url) cancels them, and its batches ("worker-vllm batch list").',
    );
    return 0;
  }
  const jobs = await cancelJobsOf(tenant, { url: options.url!, token: options.token });
  printNote(
    `${jobs} of its jobs were cancelled. Its batches go on: "worker-vllm batch list" shows them, "batch cancel" ends one.`,
  );
  return 0;
}

function noToken(name: string): UserError {
  return new UserError(
    `There is no token named "${name}": "worker-vllm token list" shows those that there are.`,
  );
}

/** Returns the tenant of a token. @throws UserError if jobs of other tokens would be cancelled with its own */
async function ownTenantOf(name: string, place: TokenPlace, { url }: PlaceOptions): Promise<string> {
  if (url === undefined) throw new UserError('--cancel asks a queue that runs: name it with --url.');
  const { tokens: all } = await place.list();
  const token = all.find((one) => one.name === name);
  if (!token) throw noToken(name);
  const others = all.filter((one) => one.tenant === token.tenant && one.name !== name);
  if (others.length === 0) return token.tenant;
  const names = others.map((one) => `"${one.name}"`).join(', ');
  throw new UserError(
    `Nothing was revoked: the jobs of "${name}" are those of the tenant "${token.tenant}", whose other tokens are ${names}. Revoke it without --cancel, and cancel its jobs by their ids (DELETE /api/jobs/{id}) or on the page.`,
  );
}

/** Cancels the jobs of a tenant that wait or run in the queue that `target` names. @returns their number */
async function cancelJobsOf(tenant: string, target: QueueTarget): Promise<number> {
  let cancelled = 0;
  for (let cursor: string | null = ''; cursor !== null; ) {
    const query = new URLSearchParams({ tenant, ...(cursor && { cursor }) });
    const acted: { jobs: number; next: string | null } = await askQueueJson(
      target,
      `/api/jobs/cancel?${query}`,
      { method: 'POST', scope: 'admin' },
    );
    cancelled += acted.jobs;
    cursor = acted.next;
  }
  return cancelled;
}

function placeOf({ url, token, state }: PlaceOptions): TokenPlace {
  return url === undefined ? tokensOfFolder(state) : tokensOfQueue({ url, token });
}

function showOnce({ token, name }: NewSecret, what: string, { note }: TokenPlace): void {
  print(token);
  printNote(`The token "${clean(name)}" ${what}. It is shown only this once: ${note}`);
}

const FIELDS: Record<string, string> = {
  tenant: '--tenant',
  worker_id: '--worker-id',
  models: '--models',
  routes: '--routes',
  store: '--store',
  keep: '--keep',
};

/** Returns the terms in the options of `create`. @throws UserError that names the option */
function boundsIn(options: CreateOptions, now: number): TokenBounds {
  const { scope, tenant, workerId, models, routes, store, keep, expires } = options;
  if (workerId !== undefined && !scope.includes('worker')) {
    throw new UserError('--worker-id says which worker may use the token, so it needs --scope worker.');
  }
  const given = {
    scopes: scope,
    tenant,
    worker_id: workerId,
    models,
    routes,
    store,
    keep: keep === undefined ? undefined : keepIn(keep),
    limits: limitsIn(options, null) ?? undefined,
    ...withoutNulls(numbersIn(options)),
    expires_at: expires === undefined ? undefined : timeIn(expires, now),
  };
  const parsed = TokenBounds.safeParse(given);
  if (parsed.success) return parsed.data;
  const field = String(parsed.error.issues[0]?.path[0]);
  const written =
    { worker_id: workerId, store, models: models?.join(','), routes: routes?.join(',') }[field] ?? '';
  throw new UserError(
    `${FIELDS[field] ?? field} "${written}": expected ${EXPECTED[field] ?? 'another text'}.`,
  );
}

const EXPECTED: Record<string, string> = {
  tenant: '1 to 256 characters',
  worker_id: "the id of a worker without blanks, with * for any characters, such as 'runpod-*'",
  models: "names of models, comma-separated, with * for any characters, such as 'qwen-*'",
  routes: "paths, comma-separated, with * for any characters, such as '/v1/embeddings'",
  store: anyOf(STORE_POLICIES),
};

/**
 * Returns what `set` changes of models, routes, what is stored, and expiry; `none` removes one of them. @throws UserError that names the
 * option
 */
function boundsToChange({ models, routes, store, keep, expires }: TermOptions, now: number): TokenChanges {
  const given = {
    ...(models && { models: isNone(models) ? null : models }),
    ...(routes && { routes: isNone(routes) ? null : routes }),
    ...(store !== undefined && { store: store === 'none' ? null : store }),
    ...(keep !== undefined && { keep: keep === 'none' ? null : keepIn(keep, 'yes, no or none') }),
    ...(expires !== undefined && { expires_at: expires === 'none' ? null : timeIn(expires, now) }),
  };
  const parsed = TokenChanges.safeParse(given);
  if (parsed.success) return parsed.data;
  const field = String(parsed.error.issues[0]?.path[0]);
  throw new UserError(`${FIELDS[field] ?? field}: expected ${EXPECTED[field] ?? 'another text'}, or none.`);
}

/** @throws UserError */
function keepIn(text: string, possible = 'yes or no'): boolean {
  if (text === 'yes' || text === 'no') return text === 'yes';
  throw new UserError(`--keep "${text}": expected ${possible}.`);
}

function isNone(list: readonly string[]): boolean {
  return list.length === 1 && list[0] === 'none';
}

type Numbers = Pick<TokenChanges, 'weight' | 'default_priority' | 'highest_priority' | 'stored_bytes'>;

const NUMBERS: Record<
  keyof Numbers,
  { key: 'weight' | 'priority' | 'highestPriority' | 'storedBytes'; flag: string; expected: string }
> = {
  weight: { key: 'weight', flag: '--weight', expected: 'a number from 0.01 to 100' },
  default_priority: {
    key: 'priority',
    flag: '--priority',
    expected: 'a whole number from -1000 to 1000',
  },
  highest_priority: {
    key: 'highestPriority',
    flag: '--highest-priority',
    expected: 'a whole number from -10 to 1000',
  },
  stored_bytes: {
    key: 'storedBytes',
    flag: '--stored-bytes',
    expected: 'a whole number from 1 to 1000000000000',
  },
};

/** Returns the numbers in the options. @returns null for a number to remove @throws UserError that names the option */
function numbersIn(options: TermOptions): Numbers {
  const numbers: Numbers = {};
  for (const name of Object.keys(NUMBERS) as (keyof Numbers)[]) {
    const { key, flag, expected } = NUMBERS[name];
    const text = options[key]?.trim();
    if (text === undefined) continue;
    const parsed = TokenChanges.shape[name].safeParse(text === 'none' ? null : Number(text || 'x'));
    if (!parsed.success) throw new UserError(`${flag} "${text}": expected ${expected}.`);
    numbers[name] = parsed.data;
  }
  return numbers;
}

function withoutNulls(numbers: Numbers): Partial<TokenBounds> {
  const given = Object.entries(numbers).filter(([, value]) => value !== null);
  return Object.fromEntries(given) as Partial<TokenBounds>;
}

const UNITS: Record<string, number> = { m: 60_000, h: 3_600_000, d: 86_400_000 };

/** Reads a time of expiry. @returns an ISO time @throws UserError */
function timeIn(text: string, now: number): string {
  const [, amount, unit] = /^(\d{1,5})([mhd])$/.exec(text) ?? [];
  const at = unit === undefined ? Date.parse(text) : now + Number(amount) * UNITS[unit]!;
  if (Number.isFinite(at) && at > now) return new Date(at).toISOString();
  throw new UserError(`--expires "${text}": expected a time to come, such as 90d, 12h or 2027-01-31.`);
}

function table(tokens: readonly TokenView[], areUsesKnown: boolean): string {
  if (tokens.length === 0) return 'There are no tokens here yet.';
  const day = (text: string | null, none: string) => text?.slice(0, 16).replace('T', ' ') ?? none;
  const rows = tokens.map(
    ({ name, scopes, tenant, worker_id, models, routes, expires_at, last_used_at, ...terms }) => [
      name,
      scopes.join('+') + (worker_id === null ? '' : `@${worker_id}`),
      tenant,
      models?.join(',') ?? 'all',
      routes?.join(',') ?? 'all',
      termsText(terms),
      day(expires_at, 'never'),
      ...(areUsesKnown ? [day(last_used_at, 'never')] : []),
    ],
  );
  return columns([
    [
      'NAME',
      'SCOPES',
      'TENANT',
      'MODELS',
      'ROUTES',
      'LIMITS',
      'EXPIRES',
      ...(areUsesKnown ? ['LAST USED'] : []),
    ],
    ...rows.map((row) => row.map(clean)),
  ]).join('\n');
}
