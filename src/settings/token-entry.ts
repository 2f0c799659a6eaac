import * as z from 'zod';
import { isPlain, Limits, STORE_POLICIES } from '../protocol/index.ts';

/** The scopes of tokens; `admin` includes the others. */
export const SCOPES = ['submit', 'worker', 'launcher', 'gateway', 'read', 'admin'] as const;
export type Scope = (typeof SCOPES)[number];

/** The fields of a token's entry that whoever makes the token chooses. */
export const TokenBounds = z.object({
  scopes: z.array(z.enum(SCOPES)).min(1),
  /** The tenant whose jobs the token submits and sees; left out: the token's name. */
  tenant: z.string().min(1).max(256).optional(),
  /**
   * The id of the only worker that may use the token, or a pattern of ids, such as `runpod-*`. Left out: any worker.
   */
  worker_id: z.string().max(256).regex(/^\S+$/).optional(),
  /**
   * The highest priority of the token's requests and jobs, in the queue and at an engine that schedules by priority
   * (where the lowest number comes first: -5 needs 5); lines of batches have -10. Left out: 0, or any for `admin`.
   */
  highest_priority: z.number().int().min(-10).max(1000).optional(),
  /** The priority of requests and jobs that name none, but never above the highest. Left out: 0. */
  default_priority: z.number().int().min(-1000).max(1000).optional(),
  /** The token's share of the slots while others wait: 2 gets twice as much as 1. Left out: 1. */
  weight: z.number().min(0.01).max(100).optional(),
  /** The models that the token may use, by the names that callers use; `*` stands for any characters. Left out: all. */
  models: z.array(z.string().min(1).max(256)).min(1).max(100).optional(),
  /**
   * The paths that the token may use; `*` stands for any characters: `/v1/embeddings`, `/v1/*`. Left out: all of its
   * scopes.
   */
  routes: z
    .array(
      z
        .string()
        .max(256)
        .regex(/^\/\S*$/, 'expected a path, such as /v1/embeddings'),
    )
    .min(1)
    .max(100)
    .optional(),
  /** The token's limits. Left out: none. */
  limits: Limits.optional(),
  /**
   * Whether its responses are stored. `deny`: none is, and a request for it is refused; `off`: only those that ask for
   * it. Left out: `allow`, all that do not ask for the contrary.
   */
  store: z.enum(STORE_POLICIES).optional(),
  /** The most bytes of responses and conversations that its tenant may have stored for the token to store more. */
  stored_bytes: z.number().int().min(1).max(1_000_000_000_000).optional(),
  /**
   * Whether its requests are kept with their answers, where the queue keeps any (docs/kept-requests.md). Left out: as
   * the queue's setting says.
   */
  keep: z.boolean().optional(),
  /** The time from which the token is refused. */
  expires_at: z.iso.datetime({ offset: true }).optional(),
});

/**
 * Refuses names that are not plain, since they are shown, and are part of addresses. Older entries are read as they
 * are.
 */
function onlyPlain(entry: object, context: z.RefinementCtx): void {
  for (const [field, value] of Object.entries(entry)) {
    for (const text of Array.isArray(value) ? value : [value]) {
      if (typeof text !== 'string' || isPlain(text)) continue;
      const message = 'expected no control characters and no halves of characters';
      context.addIssue({ code: 'custom', path: [field], message });
    }
  }
}

/** The body of `POST /api/tokens`. It is strict: a misspelt field would let the token do more. */
export const TokenRequest = TokenBounds.extend({
  /** The name of the token's user, also the tenant of its jobs unless `tenant` is given. */
  name: z.string().min(1).max(256),
})
  .strict()
  .superRefine(onlyPlain);

const { scopes: _, ...changeable } = TokenBounds.shape;

/** The body of `PATCH /api/tokens/{name}`: a field that is left out stays, and null removes it. */
export const TokenChanges = z
  .strictObject(
    Object.fromEntries(
      Object.entries(changeable).map(([name, bound]) => [name, bound.unwrap().nullable().optional()]),
    ) as {
      [Name in keyof typeof changeable]: z.ZodOptional<
        z.ZodNullable<ReturnType<(typeof changeable)[Name]['unwrap']>>
      >;
    },
  )
  .superRefine(onlyPlain);
export type TokenChanges = z.infer<typeof TokenChanges>;

/** Returns the entry with the changes. */
export function changedEntry(entry: TokenEntry, changes: TokenChanges): TokenEntry {
  const changed = Object.entries({ ...entry, ...changes }).filter(([, value]) => value !== null);
  return Object.fromEntries(changed) as TokenEntry;
}

/** The entry of a token in the token file, `TOKENS`, the fleet object and the gateway: never the token itself. */
export const TokenEntry = TokenBounds.extend({
  name: z.string().min(1).max(256),
  /** The token's SHA-256, lower-case hex. */
  sha256: z.string().regex(/^[0-9a-f]{64}$/),
  created_at: z.iso.datetime().optional(),
  /**
   * The person whom an OpenID Connect issuer vouches for, and the group whose rule holds for them. Left out: the entry
   * is of a token. Nobody has a token whose hash is that of a person's entry; the hash only names the entry.
   */
  oidc: z
    .object({
      issuer: z.string(),
      subject: z.string(),
      group: z.string(),
      /** When the token was issued that said so, epoch s: an older one says nothing of the group any more. */
      issued_at: z.number().optional(),
    })
    .optional(),
});
export type TokenBounds = z.infer<typeof TokenBounds>;

/** A token whose open requests or sockets have to end. */
export interface EndedToken {
  name: string;
  sha256: string;
  /**
   * Whether the token is refused from now on, so that its requests end too; false: its entry has changed, and its
   * sockets have to dial again.
   */
  isGone: boolean;
}

/** Returns the tokens that have to end after a change: those that are refused now, or whose rights have changed. */
export function endedTokens(before: readonly TokenEntry[], now: readonly TokenEntry[]): EndedToken[] {
  const bySecret = new Map(now.map((entry) => [entry.sha256, entry]));
  return before.flatMap((entry): EndedToken[] => {
    const { name, sha256 } = entry;
    const after = bySecret.get(sha256);
    if (after === undefined) return [{ name, sha256, isGone: true }];
    return opensAs(after) === opensAs(entry) ? [] : [{ name, sha256, isGone: false }];
  });
}

/** Returns the fields that count when a socket opens. Other limits, weights or priorities make nobody redial. */
function opensAs(entry: TokenEntry): string {
  const { name, scopes, tenant, worker_id, models, routes, expires_at } = entry;
  return JSON.stringify([name, scopes, tenant, worker_id, models, routes, expires_at]);
}
export type TokenEntry = z.infer<typeof TokenEntry>;
