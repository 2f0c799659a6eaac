import type { JSONWebKeySet } from 'jose';
import * as z from 'zod';
import { HttpError, retryAfter } from '../../../gateway/errors.ts';
import { log } from '../../../gateway/log.ts';

/** Published keys and metadata count as known for this long, ms. */
const FRESH_MS = 10 * 60_000;
/** A token whose key is not known has the keys read again at most once in this many ms: anybody can make up key ids. */
const READ_AGAIN_MS = 30_000;
/** An issuer that did not answer is asked again after this many ms. */
const RETRY_MS = 5000;

/** The parts of an issuer's metadata that are used here (OpenID Connect Discovery 1.0, section 3). */
const Metadata = z.looseObject({
  issuer: z.string(),
  jwks_uri: z.string(),
  authorization_endpoint: z.string().optional(),
  token_endpoint: z.string().optional(),
});
type Metadata = z.infer<typeof Metadata>;

const Keys = z.looseObject({ keys: z.array(z.looseObject({ kty: z.string(), kid: z.string().optional() })) });

/** The metadata and the public keys that an issuer has published. */
export interface Published {
  metadata: Metadata;
  keys: JSONWebKeySet;
}

/** How an issuer is reached. */
interface ProviderPorts {
  /** Returns the JSON at an address. @throws Error where there is none */
  read(url: string): Promise<unknown>;
  /** Epoch ms. */
  now(): number;
  /** Whether one request may wait for what another one reads. */
  wakes: boolean;
}

/**
 * Knows what one issuer has published. It is read when it is first needed, again after ten minutes, and, at most twice
 * a minute, when a key is asked for that is not there. While the issuer does not answer, what was read last goes on.
 */
export class Provider {
  readonly issuer: string;
  readonly #ports: ProviderPorts;
  #known: Published | null = null;
  /** When the issuer was last asked, and when it last answered, epoch ms. */
  #askedAt = Number.NEGATIVE_INFINITY;
  #knownAt = Number.NEGATIVE_INFINITY;
  #failure: string | null = null;
  #reading: Promise<void> | null = null;

  constructor(issuer: string, ports: ProviderPorts) {
    this.issuer = issuer;
    this.#ports = ports;
  }

  /**
   * Returns what the issuer has published.
   * @param kid a key that has to be among its keys, as far as it has one of that id; null: any keys do
   * @throws HttpError 503 where it was never read, and cannot be
   */
  async published(kid: string | null = null): Promise<Published> {
    const { now, wakes } = this.#ports;
    if (this.#mayAsk(kid, now())) {
      this.#askedAt = now();
      this.#reading = this.#read().finally(() => {
        this.#reading = null;
      });
      await this.#reading;
    } else if (this.#reading !== null && wakes) {
      // The key may be among those that are read at this moment.
      if (this.#known === null || this.#lacks(kid)) await this.#reading;
    } else if (this.#reading !== null && this.#known === null) await this.#read();
    if (this.#known !== null) return this.#known;
    throw new HttpError(
      503,
      `The issuer ${this.issuer} cannot be asked for its keys (${this.#failure ?? 'it does not answer'}), so nobody can tell whom this token is for. Try again in a few seconds; tokens of this queue work meanwhile.`,
      'issuer_away',
      retryAfter(RETRY_MS / 1000),
    );
  }

  #mayAsk(kid: string | null, now: number): boolean {
    const sinceAsked = now - this.#askedAt;
    if (sinceAsked < RETRY_MS) return false;
    if (now - this.#knownAt >= FRESH_MS) return true;
    return this.#lacks(kid) && sinceAsked >= READ_AGAIN_MS;
  }

  /** Says whether a token names a key that is not among those that are known. */
  #lacks(kid: string | null): boolean {
    return kid !== null && !this.#known?.keys.keys.some((key) => key.kid === kid);
  }

  async #read(): Promise<void> {
    try {
      const { read, now } = this.#ports;
      const base = this.issuer.replace(/\/$/, '');
      const metadata = Metadata.parse(await read(`${base}/.well-known/openid-configuration`));
      if (metadata.issuer !== this.issuer) {
        throw new Error(`it calls itself ${metadata.issuer}: set QUEUE_OIDC_ISSUER to that`);
      }
      if (new URL(metadata.jwks_uri).protocol !== new URL(this.issuer).protocol) {
        throw new Error('its keys are not at an https:// address');
      }
      const keys = Keys.parse(await read(metadata.jwks_uri)) as JSONWebKeySet;
      this.#known = { metadata, keys };
      this.#knownAt = now();
      this.#failure = null;
    } catch (error) {
      this.#failure = reasonOf(error);
      const msg = `the issuer ${this.issuer} cannot be asked for its keys${this.#known ? '; those that are known go on' : ''}`;
      log('warn', msg, { error: this.#failure });
    }
  }
}

function reasonOf(error: unknown): string {
  if (error instanceof z.ZodError) return 'its answer is not that of an OpenID Connect issuer';
  const { message, cause } = error as Error;
  return cause instanceof Error ? cause.message || message : message;
}
