import { hostname, networkInterfaces } from 'node:os';
import { describe, expect, it } from 'vitest';
import { UserError } from '../../../src/process/index.ts';
import { readProxies } from '../../../src/process/proxies.ts';

const BOTH = { HTTPS_PROXY: 'http://me:hush-hush@secure:3128', HTTP_PROXY: 'plain:3128' };

/** Through which proxy an address is reached; null: directly. */
const chosen = (env: NodeJS.ProcessEnv, url: string) => readProxies(env)?.(url)?.shown ?? null;

describe('the proxy of an address', () => {
  it.each([
    ['https://queue.example', 'http://secure:3128'],
    ['wss://queue.example/ws', 'http://secure:3128'],
    ['http://queue.example', 'http://plain:3128'],
    ['ws://10.0.0.1:8788', 'http://plain:3128'],
  ])('%s is %s, shown without its password', (url, proxy) => {
    expect(chosen(BOTH, url)).toBe(proxy);
  });

  it.each(['localhost', 'a.localhost', '127.0.0.1', '127.8.9.1', '[::1]', '0.0.0.0', '[::]', hostname()])(
    'is none for this machine: %s',
    (host) => {
      expect(chosen(BOTH, `http://${host}:8788`)).toBeNull();
    },
  );

  it('is none for the addresses of this machine', () => {
    for (const { address, family } of Object.values(networkInterfaces()).flatMap((all) => all ?? [])) {
      if (family === 'IPv4') expect(chosen(BOTH, `http://${address}`)).toBeNull();
    }
  });

  it('is none where none is named', () => {
    expect(readProxies({ NO_PROXY: '*', HTTPS_PROXY: ' ' })).toBeNull();
    expect(chosen({ HTTPS_PROXY: 'http://secure:3128' }, 'http://queue.example')).toBeNull();
  });

  it('is that of the name in small letters first', () => {
    const env = { ...BOTH, http_proxy: 'http://small:1' };
    expect(readProxies(env)?.('http://a.example')).toMatchObject({
      shown: 'http://small:1',
      variable: 'http_proxy',
    });
  });
});

describe('NO_PROXY', () => {
  it.each([
    ['*', 'https://any.example', true],
    ['queue.example', 'https://queue.example', true],
    ['queue.example', 'wss://a.queue.example', true],
    ['queue.example', 'https://myqueue.example', false],
    ['.queue.example', 'https://a.queue.example', true],
    ['*.queue.example', 'https://a.queue.example', true],
    ['other, QUEUE.example', 'https://queue.example', true],
    ['other queue.example', 'https://queue.example', true],
    ['queue.example:443', 'https://queue.example', true],
    ['queue.example:443', 'https://queue.example:8443', false],
    ['10.0.0.0/8', 'http://10.1.2.3:8788', true],
    ['10.0.0.0/8', 'http://11.1.2.3:8788', false],
    ['10.1.2.3', 'http://10.1.2.3:8788', true],
    ['1.2.3', 'http://10.1.2.3', false],
    ['fd00::/8', 'http://[fd12::1]:8788', true],
    ['fd12::1', 'http://[fd12::1]:8788', true],
    ['[fd12::1]:8788', 'http://[fd12::1]:8788', true],
    ['10.0.0.0/99', 'http://10.1.2.3', false],
    ['10.*', 'http://10.1.2.3', true],
    ['10.*', 'http://110.1.2.3', false],
    ['*-internal.example', 'https://a-internal.example', true],
    ['queue.example.', 'https://queue.example', true],
    ['queue.example', 'https://queue.example.', true],
    ['http://queue.example/', 'https://queue.example', true],
    ['https://queue.example:8443', 'https://queue.example:8443', true],
    ['bücher.example', 'https://bücher.example', true],
    ['', 'https://queue.example', false],
  ])('%j and %s: %s', (list, url, isDirect) => {
    expect(chosen({ ...BOTH, NO_PROXY: list }, url) === null).toBe(isDirect);
    expect(chosen({ ...BOTH, no_proxy: list, NO_PROXY: list && 'nothing' }, url) === null).toBe(isDirect);
  });
});

it('an address that is none of a proxy is refused, and its password is not shown', () => {
  const wrong = () => readProxies({ HTTPS_PROXY: 'socks5://me:hush-hush@proxy:1080' });
  expect(wrong).toThrow(UserError);
  expect(wrong).toThrow(
    /HTTPS_PROXY="socks5:\/\/\(secret\)@proxy:1080": expected the address of an HTTP proxy/,
  );
});
