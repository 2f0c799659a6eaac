import type { Sql } from '../durable/ports.ts';
import { bounds } from '../protocol/index.ts';
import { changedEntry, type TokenChanges, type TokenEntry } from '../settings/token-entry.ts';

/** The most tokens, more than any company has teams and programs; each refresh of a gateway reads all of them. */
const MOST_TOKENS = 2000;
/** The most people beside the tokens. Beyond it the entry goes that was not used for longest. */
const MOST_PEOPLE = 10_000;
/** The fields of a person's entry that no administrator has set. */
const OF_EVERYBODY = new Set(['name', 'scopes', 'sha256', 'created_at', 'oidc']);
/** The time at which an entry without a time counts as made. */
const EPOCH = '1970-01-01T00:00:00Z';
const USES_KEPT_MS = 366 * 24 * 3_600_000;

/** The tokens that were made with `POST /api/tokens`. */
export interface TokenList {
  /** The version of the list, a new number after every change. */
  version: number;
  /** The tokens; null: they are still those of the version that the gateway knows. */
  entries: TokenEntry[] | null;
}

/** When a token was last used. */
export interface TokenUse {
  sha256: string;
  /** The time of the use, epoch ms. */
  at: number;
}

export type TokenChange =
  | { kind: 'add'; entry: TokenEntry }
  /** Keeps the entry and replaces its token: the old token is refused from now on. */
  | { kind: 'rotate'; name: string; sha256: string }
  | { kind: 'set'; name: string; changes: TokenChanges }
  | { kind: 'revoke'; name: string };

/** A person for whom an OpenID Connect issuer vouches. */
export interface PersonSeen {
  /** The names that a new entry may have, the first that is free; the last one is nobody else's. */
  names: readonly string[];
  /** The entry of somebody who was never seen, without its name. */
  entry: Omit<TokenEntry, 'name' | 'oidc'> & Required<Pick<TokenEntry, 'oidc'>>;
}

/** The reason why nothing was changed; a code of the API. */
export type TokenRefusal = 'token_exists' | 'too_many_tokens' | 'token_not_found' | 'person_has_no_secret';

/**
 * Stores the tokens that are made, rotated and revoked at run time, the people who have signed in, and when any of them
 * was used last.
 */
export class Tokens {
  readonly #sql: Sql;
  #version: number;
  /** All entries by name, once they are read: thousands of people take long to parse, and each newcomer changes one. */
  #entries: Map<string, TokenEntry> | null = null;

  constructor(sql: Sql, now: () => number) {
    this.#sql = sql;
    // The first version is the time of the start, so that no gateway holds an older list under a version of this start.
    this.#version = now();
  }

  /** Forgets what was cached, after a commit was rolled back. */
  reload(): void {
    this.#entries = null;
    this.#version += 1;
  }

  list(known: number | null): TokenList {
    if (known === this.#version) return { version: this.#version, entries: null };
    const entries = this.#all().sort((a, b) => (a.name < b.name ? -1 : 1));
    return { version: this.#version, entries };
  }

  /**
   * Changes a token. A person who is revoked stays known, as somebody whose access has ended: otherwise they would sign
   * in again as somebody new.
   */
  change(change: TokenChange, now: number): TokenEntry | TokenRefusal {
    const name = change.kind === 'add' ? change.entry.name : change.name;
    const before = this.#byName().get(name);
    if (change.kind === 'add') {
      if (before) return 'token_exists';
      if (this.#all().filter(({ oidc }) => !oidc).length >= MOST_TOKENS) return 'too_many_tokens';
      return this.#put(change.entry);
    }
    if (!before) return 'token_not_found';
    if (change.kind === 'set') return this.#put(changedEntry(before, change.changes));
    if (before.oidc) {
      if (change.kind === 'rotate') return 'person_has_no_secret';
      return this.#put({ ...before, expires_at: new Date(now).toISOString() });
    }
    this.#remove(before);
    return change.kind === 'rotate' ? this.#put({ ...before, sha256: change.sha256 }) : before;
  }

  /**
   * Takes note of a person: makes their entry, or changes the group whose rule holds for them, unless a newer token has
   * said another.
   * @returns the entry now, and as it was before; null: there was none
   */
  see({ names, entry }: PersonSeen): { entry: TokenEntry; before: TokenEntry | null } | TokenRefusal {
    const { issuer, subject, group, issued_at = 0 } = entry.oidc;
    const all = this.#all();
    const before = all.find(({ oidc }) => oidc?.issuer === issuer && oidc.subject === subject);
    if (before?.oidc?.group === group || issued_at < (before?.oidc?.issued_at ?? 0)) {
      return { entry: before!, before: before! };
    }
    if (before) return { entry: this.#put({ ...before, scopes: entry.scopes, oidc: entry.oidc }), before };
    const name = names.find((free) => !this.#byName().has(free));
    if (name === undefined) return 'token_exists';
    const people = all.filter(({ oidc }) => oidc);
    if (people.length >= MOST_PEOPLE) {
      const unused = this.#longestUnused(people);
      if (!unused) return 'too_many_tokens';
      this.#remove(unused);
    }
    return { entry: this.#put({ ...entry, name }), before: null };
  }

  /** Returns the person not seen for longest of those whom no administrator has changed or revoked. */
  #longestUnused(people: readonly TokenEntry[]): TokenEntry | undefined {
    const uses = new Map(
      [...this.#sql.exec(`SELECT sha256, at FROM token_uses`)].map(({ sha256, at }) => [sha256, Number(at)]),
    );
    const seen = ({ sha256, created_at }: TokenEntry) => uses.get(sha256) ?? Date.parse(created_at ?? EPOCH);
    return people
      .filter((entry) => Object.keys(entry).every((field) => OF_EVERYBODY.has(field)))
      .reduce<TokenEntry | undefined>((a, b) => (a && seen(a) <= seen(b) ? a : b), undefined);
  }

  /** Notes when tokens were used, also tokens of files. Uses older than a year are forgotten. */
  uses(told: readonly TokenUse[], now: number): Record<string, number> {
    for (const { sha256, at } of told) {
      this.#sql.exec(
        `INSERT INTO token_uses (sha256, at) VALUES (?1, ?2)
           ON CONFLICT (sha256) DO UPDATE SET at = max(at, excluded.at)`,
        sha256,
        at,
      );
    }
    this.#sql.exec(`DELETE FROM token_uses WHERE at < ?`, now - USES_KEPT_MS);
    const rows = [...this.#sql.exec(`SELECT sha256, at FROM token_uses`)];
    return Object.fromEntries(rows.map(({ sha256, at }) => [String(sha256), Number(at)]));
  }

  #remove({ name, sha256 }: TokenEntry): void {
    this.#sql.exec(`DELETE FROM token_uses WHERE sha256 = ?`, sha256);
    this.#sql.exec(`DELETE FROM tokens WHERE name = ?`, name);
    this.#byName().delete(name);
    this.#version += 1;
  }

  #put(entry: TokenEntry): TokenEntry {
    this.#sql.exec(
      `INSERT INTO tokens (name, entry) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET entry = excluded.entry`,
      entry.name,
      JSON.stringify(entry),
    );
    this.#byName().set(entry.name, entry);
    this.#version += 1;
    return entry;
  }

  #all(): TokenEntry[] {
    return [...this.#byName().values()];
  }

  #byName(): Map<string, TokenEntry> {
    this.#entries ??= new Map(
      [...this.#sql.exec(`SELECT name, entry FROM tokens`)].map(({ name, entry }) => [
        String(name),
        JSON.parse(String(entry)) as TokenEntry,
      ]),
    );
    return this.#entries;
  }
}

/** A browser that showed a token and has a cookie for it. The row holds neither token nor cookie. */
export interface SignInRow {
  /** The SHA-256 of what the cookie holds, lower-case hex. */
  id_sha256: string;
  /** The SHA-256 of the token, lower-case hex: once the token is no longer configured, its sign-ins end. */
  token_sha256: string;
  /** When the sign-in expires, epoch ms. */
  expires_at: number;
}

/** Stores who is signed in to the page. */
export class SignIns {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  /**
   * Adds a sign-in. Those that have expired are forgotten, and, beyond a number with one token, those that expire
   * first.
   */
  add({ id_sha256, token_sha256, expires_at }: SignInRow, now: number): void {
    this.#sql.exec(
      `INSERT INTO sign_ins (id_sha256, token_sha256, expires_at) VALUES (?, ?, ?)`,
      id_sha256,
      token_sha256,
      expires_at,
    );
    this.#sql.exec(
      `DELETE FROM sign_ins WHERE expires_at <= ?1
         OR id_sha256 IN (
           SELECT id_sha256 FROM sign_ins WHERE token_sha256 = ?2 ORDER BY expires_at DESC, id_sha256 LIMIT -1 OFFSET ?3
         )`,
      now,
      token_sha256,
      bounds.SIGN_INS_OF_TOKEN,
    );
  }

  /** Finds a sign-in; null: there is none, or it has expired. */
  find(id_sha256: string, now: number): SignInRow | null {
    const [row] = this.#sql.exec(
      `SELECT token_sha256, expires_at FROM sign_ins WHERE id_sha256 = ? AND expires_at > ?`,
      id_sha256,
      now,
    );
    if (!row) return null;
    return { id_sha256, token_sha256: String(row.token_sha256), expires_at: Number(row.expires_at) };
  }

  remove(id_sha256: string): void {
    this.#sql.exec(`DELETE FROM sign_ins WHERE id_sha256 = ?`, id_sha256);
  }
}
