import type { PersonSeen } from '../../../fleet/rpc.ts';
import {
  configuredTokens,
  entryOfPerson,
  forgetKeptTokens,
  hasExpired,
  hexOf,
  noteUse,
} from '../../../gateway/auth/tokens.ts';
import type { AuthSettings } from '../../../gateway/env.ts';
import { HttpError } from '../../../gateway/errors.ts';
import { callFleet } from '../../../gateway/objects/calls.ts';
import { isPlain } from '../../../protocol/index.ts';
import { parseOidcRules, personNow, ruleFor, subjectName } from '../../../settings/oidc.ts';
import { DEFAULT_QUEUE } from '../../../settings/queue-settings.ts';
import type { TokenEntry } from '../../../settings/token-entry.ts';
import type { Claims } from './verify.ts';

/** The longest name of an entry. */
const LONGEST_NAME = 256;
/** The most groups that an error lists. */
const GROUPS_TOLD = 5;

/**
 * Returns the entry of the person of whom these claims are. The first time that somebody is here, and each time that
 * another rule holds for them by a newer token, the fleet object is told. What an older token says of groups holds no
 * more: it may be from before somebody lost one.
 * @param route the route that is asked, for the audit
 * @throws HttpError 403 where no rule is for them, or an administrator has ended their access
 */
export async function entryOfClaims(claims: Claims, env: AuthSettings, route: string): Promise<TokenEntry> {
  const { sub: subject } = claims;
  const claim = env.OIDC_GROUPS_CLAIM || 'groups';
  const groups = groupsIn(claims, claim);
  const rule = ruleFor(groups, parseOidcRules(env.OIDC_RULES!));
  if (!rule) throw withoutRule(claims, claim, groups);
  const known = await entryOfPerson(subject, env);
  const isOld = issuedAt(claims) < (known?.oidc?.issued_at ?? 0);
  const entry =
    isOld || known?.oidc?.group === rule.group ? known! : await see(claims, rule.group, env, route);
  if (!entry) throw withoutRule(claims, claim, groups);
  if (hasExpired(entry)) {
    const message = `The access of "${entry.name}" to this queue has ended (${entry.expires_at}). An administrator of the queue can give it back.`;
    throw new HttpError(403, message, 'access_ended');
  }
  await noteUse(entry, env);
  return entry;
}

/** Returns when a token was issued, epoch s; now, if it does not say so or names a later time. */
function issuedAt({ iat }: Claims): number {
  const now = Math.floor(Date.now() / 1000);
  return typeof iat === 'number' ? Math.min(iat, now) : now;
}

/** @returns null: the newest token of the person says a group for which there is no rule any more */
async function see(
  claims: Claims,
  group: string,
  env: AuthSettings,
  route: string,
): Promise<TokenEntry | null> {
  const { sub: subject } = claims;
  const { scopes } = parseOidcRules(env.OIDC_RULES!).find((rule) => rule.group === group)!;
  const inFile = new Set(configuredTokens(env).map(({ name }) => name));
  const person: PersonSeen = {
    names: namesOf(claims).filter((name) => !inFile.has(name)),
    entry: {
      scopes,
      // Nobody knows a text of this hash: the entry is no token's.
      sha256: hexOf(crypto.getRandomValues(new Uint8Array(32))),
      created_at: new Date().toISOString(),
      oidc: { issuer: env.OIDC_ISSUER!, subject, group, issued_at: issuedAt(claims) },
    },
  };
  const kept = await callFleet(env, DEFAULT_QUEUE, (fleet) => fleet.seePerson(person, route));
  if (typeof kept !== 'string') {
    forgetKeptTokens();
    return personNow(kept, env);
  }
  const why =
    kept === 'too_many_tokens'
      ? 'as many people as are kept have limits of their own or were revoked'
      : 'there are tokens of their names';
  throw new HttpError(409, `No entry can be made for ${JSON.stringify(subject)}: ${why}.`, kept);
}

/**
 * Returns the names that an entry may have: the e-mail address, for people to read, and the subject, which is nobody
 * else's. An address that the issuer has not verified may be anybody's.
 */
function namesOf(claims: Claims): string[] {
  const { sub, email } = claims;
  const own = subjectName(sub);
  if (own.length > LONGEST_NAME || !isPlain(own)) {
    throw new HttpError(403, 'The subject of this token ("sub") is too long, or no plain text.', 'no_rule');
  }
  if (typeof email !== 'string' || !isEmailVerified(claims)) return [own];
  const name = `oidc:${email}`;
  return name.length <= LONGEST_NAME && isPlain(name) ? [name, own] : [own];
}

/** Says whether the issuer vouches for the address, or says nothing of it. Some issuers write a text: `"false"`. */
function isEmailVerified({ email_verified: said }: Claims): boolean {
  return [undefined, null, true, 'true'].includes(said as boolean | string | null | undefined);
}

/** Returns the groups that a claim lists; a claim with one text is one group. */
function groupsIn(claims: Claims, claim: string): string[] {
  if (claim === 'email' && !isEmailVerified(claims)) return [];
  const value = claims[claim];
  const listed = Array.isArray(value) ? value : [value];
  return listed.filter((group) => typeof group === 'string');
}

function withoutRule(claims: Claims, claim: string, groups: readonly string[]): HttpError {
  const told = groups.slice(0, GROUPS_TOLD).map((group) => JSON.stringify(group));
  const more = groups.length > told.length ? ` and ${groups.length - told.length} more` : '';
  const what = groups.length === 0 ? whyNone(claims, claim) : `which lists ${told.join(', ')}${more}`;
  const who = JSON.stringify(typeof claims.email === 'string' ? claims.email : claims.sub);
  const message = `This queue has no rule for ${who}: rules are for the groups of the claim "${claim}", ${what}. Its operator writes them in QUEUE_OIDC_RULES.`;
  return new HttpError(403, message, 'no_rule');
}

/** Returns why a claim lists no groups, as a clause. */
function whyNone(claims: Claims, claim: string): string {
  if (Object.hasOwn(Object(claims._claim_names), claim)) {
    return 'which the issuer left out, since there are too many: have it list those alone that are assigned to the application';
  }
  const value = claims[claim];
  if (value === undefined || value === null || (Array.isArray(value) && value.length === 0)) {
    return 'which is missing or empty';
  }
  return typeof value === 'string'
    ? 'which is an address that the issuer has not verified'
    : 'which is neither a list of texts nor one text';
}
