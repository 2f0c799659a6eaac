import * as z from 'zod';
import { isLoopback } from '../process/network.ts';
import { expectationWords } from '../protocol/schema-words.ts';
import { TokenBounds, type TokenEntry } from './token-entry.ts';

/** This file has the settings of an OpenID Connect issuer, and the rules that say what its people may do. */

export const OIDC_SETTINGS = {
  oidc_issuer: {
    kind: 'text',
    check: checkIssuer,
    help: 'the OpenID Connect issuer whose people sign in as themselves, as its tokens name it (`iss`): `https://login.example.com/realms/main`; [signing in](sign-in.md)',
  },
  oidc_client_id: {
    kind: 'text',
    help: 'the id under which this queue is registered at the issuer',
  },
  oidc_client_secret: {
    kind: 'text',
    help: 'the secret of that registration; without it the queue is a public client, with PKCE alone',
  },
  oidc_audience: {
    kind: 'text',
    help: 'the audience (`aud`) that a bearer JWT of the API must name; without it the client id',
  },
  oidc_groups_claim: {
    kind: 'text',
    default: 'groups',
    help: 'the claim of its tokens that lists the groups of a person',
  },
  oidc_rules: {
    kind: 'text',
    check: parseOidcRules,
    help: 'what each group may do, JSON, the first rule that fits: `[{"group": "ml-team", "scopes": ["submit"]}]`; [rules](sign-in.md#rules)',
  },
} as const;

/** The bindings of these settings. */
export type OidcBindings = { [Name in keyof typeof OIDC_SETTINGS as Uppercase<Name>]?: string };

/** The scopes that a person may have: workers, launchers and gateways are programs, with tokens of their own. */
const SCOPES_OF_PEOPLE = ['submit', 'read', 'admin'] as const;

const { worker_id: _, expires_at: __, ...boundsOfPeople } = TokenBounds.shape;

/** A rule: the bounds of a token entry for the people of one group. It is strict: a misspelt field would allow more. */
const OidcRule = z.strictObject({
  /** The group's name or id, as the claim lists it; `*`: everybody for whom the issuer vouches. */
  group: z.string().min(1).max(256),
  ...boundsOfPeople,
  scopes: z
    .array(z.enum(SCOPES_OF_PEOPLE, { error: `expected one of ${SCOPES_OF_PEOPLE.join(', ')}` }))
    .min(1),
});
export type OidcRule = z.infer<typeof OidcRule>;

const WITHOUT_RULES =
  'expected one rule at least, such as [{"group": "ml-team", "scopes": ["submit"]}]: without any, nobody can sign in';

/** The rules that were parsed last, with their text. */
let parsed: { text: string; rules: OidcRule[] } = { text: '', rules: [] };

/**
 * Reads the rules of QUEUE_OIDC_RULES.
 * @throws Error that says what is wrong
 */
export function parseOidcRules(text: string): OidcRule[] {
  if (parsed.text === text) return parsed.rules;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new Error(
      `expected JSON, such as [{"group": "ml-team", "scopes": ["submit"]}]; ${(error as Error).message}`,
    );
  }
  const read = z.array(OidcRule).min(1, WITHOUT_RULES).safeParse(value, { error: expectationWords });
  if (!read.success) throw new Error(faultOf(read.error.issues[0]!));
  const rules = read.data;
  const twice = rules.find(({ group }, at) => rules.findIndex((rule) => rule.group === group) < at);
  if (twice) throw new Error(`the group "${twice.group}" is there twice`);
  parsed = { text, rules };
  return rules;
}

/** Says which rule has a fault, counted from 1 as people count, in which field, and which. */
function faultOf({ path: [index, ...field], message }: z.core.$ZodIssue): string {
  if (typeof index !== 'number') return message;
  return [`rule number ${index + 1}:`, ...(field.length > 0 ? [field.join('.')] : []), message].join(' ');
}

/** Returns the rule for a person, the first that names a group of theirs; undefined: there is none. */
export function ruleFor(groups: readonly string[], rules: readonly OidcRule[]): OidcRule | undefined {
  return rules.find(({ group }) => group === '*' || groups.includes(group));
}

/**
 * Returns the entry of a person as it holds now: what the rule of their group says, and over it what an administrator
 * has set. A change of the rules therefore holds for everybody at once.
 * @returns null: the entry is of another issuer, or no rule names its group any more
 */
export function personNow(
  entry: TokenEntry,
  { OIDC_ISSUER: issuer, OIDC_RULES: rules }: OidcBindings,
): TokenEntry | null {
  const { oidc } = entry;
  if (!oidc || !rules || oidc.issuer !== issuer) return null;
  const rule = parseOidcRules(rules).find(({ group }) => group === oidc.group);
  if (!rule) return null;
  const { group: _, scopes, ...bounds } = rule;
  return { tenant: subjectName(oidc.subject), ...bounds, ...entry, scopes };
}

/** Returns the name that no two people of an issuer share; it is their tenant where the rule names none. */
export function subjectName(subject: string): string {
  return `oidc:${subject}`;
}

/** @throws Error where an issuer cannot be believed over this address */
function checkIssuer(text: string): void {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null || !/^https?:$/.test(url.protocol)) throw new Error('expected an https:// URL');
  if (url.protocol === 'http:' && !isLoopback(url.hostname))
    throw new Error('expected https: over http anybody on the way could sign in as anybody');
  if (url.username || url.password || url.search || url.hash)
    throw new Error('expected a URL without a user name, a query and a fragment');
}

/** Returns why these settings cannot be used together, or null. */
export function oidcSettingsProblem(given: OidcBindings): string | null {
  const set = (Object.keys(OIDC_SETTINGS) as (keyof typeof OIDC_SETTINGS)[]).filter(
    (name) => given[name.toUpperCase() as keyof OidcBindings],
  );
  if (set.length === 0) return null;
  const needed = ['oidc_issuer', 'oidc_client_id', 'oidc_rules'] as const;
  const missing = needed.filter((name) => !set.includes(name)).map(variableOf);
  if (missing.length === 0) return null;
  return `${variableOf(set[0]!)} is set without ${missing.join(' and ')}: to let people sign in, set QUEUE_OIDC_ISSUER, QUEUE_OIDC_CLIENT_ID and QUEUE_OIDC_RULES (docs/sign-in.md).`;
}

function variableOf(name: string): string {
  return `QUEUE_${name.toUpperCase()}`;
}
