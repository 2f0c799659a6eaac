import { describe, expect, it } from 'vitest';
import { Provider } from '../../../src/features/oidc/gateway/provider.ts';

/** When an issuer is asked for its keys. */

const ISSUER = 'https://login.example.com';
const MINUTE = 60_000;

function played({ wakes = true } = {}) {
  const issuer = {
    now: 1_000_000,
    reads: [] as string[],
    isAway: false,
    metadata: { issuer: ISSUER, jwks_uri: `${ISSUER}/keys` } as Record<string, string>,
    kids: ['first'],
  };
  const read = async (url: string) => {
    issuer.reads.push(url);
    await Promise.resolve();
    if (issuer.isAway) throw new Error('it is away');
    return url.endsWith('/keys')
      ? { keys: issuer.kids.map((kid) => ({ kty: 'RSA', kid })) }
      : issuer.metadata;
  };
  const provider = new Provider(ISSUER, { read, now: () => issuer.now, wakes });
  const kids = async (kid: string | null = null) =>
    (await provider.published(kid)).keys.keys.map((key) => key.kid);
  return { issuer, provider, kids };
}

describe('the keys of an issuer', () => {
  it('are read once in ten minutes', async () => {
    const { issuer, kids } = played();
    expect(await kids('first')).toEqual(['first']);
    issuer.now += 9 * MINUTE;
    expect(await kids('first')).toEqual(['first']);
    expect(issuer.reads).toEqual([`${ISSUER}/.well-known/openid-configuration`, `${ISSUER}/keys`]);
    issuer.kids = ['second'];
    issuer.now += MINUTE;
    expect(await kids('first')).toEqual(['second']);
  });

  it('are read again for a key that is not there, at most twice a minute', async () => {
    const { issuer, kids } = played();
    await kids();
    issuer.kids = ['first', 'second'];
    issuer.now += 10_000;
    expect(await kids('second')).toEqual(['first']);
    issuer.now += 20_000;
    expect(await kids('second')).toEqual(['first', 'second']);
    const { length } = issuer.reads;
    for (let second = 0; second < 60; second++) {
      issuer.now += 1000;
      await Promise.all([kids('made up'), kids('made up too')]);
    }
    expect(issuer.reads.length - length).toBe(4);
  });

  it('that are known go on while the issuer is away, and it is asked every five seconds', async () => {
    const { issuer, kids } = played();
    await kids();
    issuer.isAway = true;
    issuer.now += 10 * MINUTE;
    const { length } = issuer.reads;
    for (let second = 0; second < 10; second++) {
      expect(await kids('first')).toEqual(['first']);
      issuer.now += 1000;
    }
    expect(issuer.reads.length - length).toBe(2);
    issuer.isAway = false;
    issuer.kids = ['second'];
    expect(await kids('second')).toEqual(['second']);
  });

  it.each([true, false])('are waited for by all who come first (one for all: %s)', async (wakes) => {
    const { issuer, kids } = played({ wakes });
    const all = await Promise.all([kids(), kids(), kids()]);
    expect(all).toEqual([['first'], ['first'], ['first']]);
    expect(issuer.reads).toHaveLength(wakes ? 2 : 6);
  });

  it('that are read again are waited for by all whose key is not there', async () => {
    const { issuer, kids } = played();
    await kids();
    issuer.kids = ['second'];
    issuer.now += MINUTE;
    const all = await Promise.all([kids('second'), kids('second'), kids('first')]);
    expect(all).toEqual([['second'], ['second'], ['first']]);
    expect(issuer.reads).toHaveLength(4);
  });

  it('that were never read are a 503 that says why', async () => {
    const { issuer, kids } = played();
    issuer.isAway = true;
    await expect(kids()).rejects.toMatchObject({ status: 503, code: 'issuer_away' });
    await expect(kids()).rejects.toThrow(/login.example.com.*it is away/);
    expect(issuer.reads).toHaveLength(1);
  });

  it.each([
    [{ issuer: 'https://other.example.com' }, /calls itself https:\/\/other.example.com/],
    [{ jwks_uri: 'http://login.example.com/keys' }, /not at an https/],
    [{ jwks_uri: '' }, /Invalid URL/],
  ])('are not read where the metadata say %j', async (changes, message) => {
    const { issuer, kids } = played();
    Object.assign(issuer.metadata, changes);
    await expect(kids()).rejects.toThrow(message);
  });
});
