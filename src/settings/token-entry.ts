import * as z from 'zod';
import { isPlain, Limits } from '../protocol/index.ts';
import { SCOPES } from './scopes.ts';

/** What the entry of a token may hold, wherever the token was made. */
export const TokenBounds = z.object({
  scopes: z.array(z.enum(SCOPES)).min(1),
  /** Whose jobs it submits and sees; left out: it is a tenant of its own, by its name. */
  tenant: z.string().min(1).max(256).optional(),
  /** Id of the only worker that may use it, or a pattern of ids: `runpod-*`. Left out: any worker. */
  worker_id: z.string().max(256).regex(/^\S+$/).optional(),
  /**
   * Highest priority of its requests and jobs, in the queue and at an engine that schedules by priority (there the lowest
   * number goes first: -5 needs 5); lines of batches have -10. Left out: 0; of `admin` any.
   */
  highest_priority: z.number().int().min(-10).max(1000).optional(),
  /** Priority of those that name none, but never above the highest. Left out: 0. */
  default_priority: z.number().int().min(-1000).max(1000).optional(),
  /** Its part of the slots while others wait: with 2 it is given twice as much as with 1. Left out: 1. */
  weight: z.number().min(0.01).max(100).optional(),
  /** Models that it may ask for, by the names that callers use; `*` stands for any characters. Left out: all. */
  models: z.array(z.string().min(1).max(256)).min(1).max(100).optional(),
  /** Paths that it may ask for; `*` stands for any characters: `/v1/embeddings`, `/v1/*`. Left out: all of its scopes. */
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
  /** What it may use. Left out: whatever there is. */
  limits: Limits.optional(),
  /** From then on it is refused. */
  expires_at: z.iso.datetime({ offset: true }).optional(),
});

/**
 * Refuses names that are not plain, since they are shown, and stand in addresses. What was made before is read as it
 * is.
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

/** Body of `POST /api/tokens`. Strict: what is misspelt would let the token do more. */
export const TokenRequest = TokenBounds.extend({
  /** Who it is for; also the tenant of its jobs, unless `tenant` is given. */
  name: z.string().min(1).max(256),
})
  .strict()
  .superRefine(onlyPlain);

const { scopes: _, ...changeable } = TokenBounds.shape;

/** Body of `PATCH /api/tokens/{name}`: what is left out stays, null takes it away. */
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

/** The entry as it is with them. */
export function changedEntry(entry: TokenEntry, changes: TokenChanges): TokenEntry {
  const changed = Object.entries({ ...entry, ...changes }).filter(([, value]) => value !== null);
  return Object.fromEntries(changed) as TokenEntry;
}

/** One token as the token file, `TOKENS`, the fleet object and the gateway know it: never the token itself. */
export const TokenEntry = TokenBounds.extend({
  name: z.string().min(1).max(256),
  /** Lower-case hex of the token's SHA-256. */
  sha256: z.string().regex(/^[0-9a-f]{64}$/),
  created_at: z.iso.datetime().optional(),
});
export type TokenBounds = z.infer<typeof TokenBounds>;

/** A secret with which nothing that is open may go on. */
export interface EndedToken {
  name: string;
  sha256: string;
  /**
   * The secret is refused from now on, so what it asked for ends too; false: its entry has changed, and sockets dial
   * again.
   */
  isGone: boolean;
}

/**
 * Returns what has to end after a change of tokens: secrets that are refused now, or may do something else than before.
 */
export function endedTokens(before: readonly TokenEntry[], now: readonly TokenEntry[]): EndedToken[] {
  const bySecret = new Map(now.map((entry) => [entry.sha256, entry]));
  return before.flatMap((entry): EndedToken[] => {
    const { name, sha256 } = entry;
    const after = bySecret.get(sha256);
    if (after === undefined) return [{ name, sha256, isGone: true }];
    return opensAs(after) === opensAs(entry) ? [] : [{ name, sha256, isGone: false }];
  });
}

/** Returns what counts when a socket is opened: nobody has to dial anew for other limits, weights or priorities. */
function opensAs(entry: TokenEntry): string {
  const { name, scopes, tenant, worker_id, models, routes, expires_at } = entry;
  return JSON.stringify([name, scopes, tenant, worker_id, models, routes, expires_at]);
}
export type TokenEntry = z.infer<typeof TokenEntry>;
