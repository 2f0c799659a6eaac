import { readFileSync } from 'node:fs';
import { brotliDecompressSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { unpackPage } from '../../src/dashboard/archive.ts';
import { freshDashboard } from '../../src/host/dashboard.ts';
import { startTestQueue } from '../support/test-queue.ts';

/** What a browser loads before it shows anything, compressed, bytes. */
const MOST_FIRST_BYTES = 100_000;

const road = startTestQueue();

const asBrowser = { headers: { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' } };

async function documentAt(path: string): Promise<string> {
  const response = await fetch(`${road.url}${path}`, asBrowser);
  expect(response.status).toBe(200);
  return await response.text();
}

/** Addresses of the files that the document names. */
async function filesOf(path: string): Promise<string[]> {
  const document = await documentAt(path);
  const names = [...document.matchAll(/(?:src|href)="([^"]*assets\/[^"]+)"/g)].map(([, name]) => name!);
  return names.map((name) => new URL(name, `${road.url}${path}`).href);
}

describe('the page', () => {
  it.each([
    '/',
    '/workers/w-1',
    '/workers/w-1/',
    '/queue',
    '/requests',
    '/jobs',
    '/jobs/j-1',
    '/batches',
    '/spend',
    '/try',
  ])('is there at %s for browsers, with files that it finds from there', async (path) => {
    const files = await filesOf(path);
    expect(files).toHaveLength(2);
    for (const file of files) expect((await fetch(file)).status).toBe(200);
  });

  it('leaves these addresses to nobody else', async () => {
    const response = await fetch(`${road.url}/`, { headers: { accept: 'application/json' } });
    expect(response.status).toBe(404);
    expect(await response.json()).toMatchObject({
      error: { code: 'route_not_found', message: expect.stringContaining('Programs find the state') },
    });
  });

  it.each(['/nothing', '/queue/more', '/workers', '/api/nothing'])(
    'shows a browser that nothing is at %s, and tells everybody else',
    async (path) => {
      const shown = await fetch(`${road.url}${path}`, asBrowser);
      expect(shown.status).toBe(404);
      expect(shown.headers.get('content-type')).toContain('text/html');
      expect(await shown.text()).toContain('<div id="page">');
      const told = await fetch(`${road.url}${path}`);
      expect(told.status).toBe(404);
      expect(await told.json()).toMatchObject({ error: { code: 'route_not_found' } });
    },
  );

  it('tells a client of the API whose address lacks /v1 that it does', async () => {
    const response = await fetch(`${road.url}/responses`, { method: 'POST', body: '{}' });
    expect(response.status).toBe(405);
    const message = expect.stringContaining("End the client's base URL with /v1.");
    expect(await response.json()).toMatchObject({ error: { code: 'method_not_allowed', message } });
  });

  it('is not for other machines where no tokens are configured', async () => {
    const forwarded = { headers: { ...asBrowser.headers, 'x-forwarded-for': '203.0.113.9' } };
    const response = await fetch(`${road.url}/`, forwarded);
    expect(response.status).toBe(403);
    expect(await response.text()).toContain('Make tokens');
  });

  it('may load nothing from another host, and nothing inline', async () => {
    const { headers } = await fetch(`${road.url}/`, asBrowser);
    expect(headers.get('content-security-policy')).toMatch(
      /^default-src 'none'; script-src 'self'; style-src 'self';/,
    );
    expect(headers.get('x-content-type-options')).toBe('nosniff');
    expect(await documentAt('/')).not.toMatch(/ style=|<style|<script(?![^>]* src=)|(?:src|href)="https?:/);
  });

  it('is asked for again, and answered 304 while it is the same', async () => {
    const { headers } = await fetch(`${road.url}/`, asBrowser);
    expect(headers.get('cache-control')).toBe('no-cache');
    const again = await fetch(`${road.url}/`, {
      headers: { ...asBrowser.headers, 'if-none-match': headers.get('etag')! },
    });
    expect(again.status).toBe(304);
  });

  it('has files that are kept for good, compressed for those who take it', async () => {
    for (const file of await filesOf('/')) {
      const plain = await fetch(file, { headers: { 'accept-encoding': 'identity' } });
      expect(plain.headers.get('cache-control')).toContain('immutable');
      expect(plain.headers.get('content-encoding')).toBeNull();
      const compressed = await fetch(file, { headers: { 'accept-encoding': 'gzip, br' } });
      expect(compressed.headers.get('content-encoding')).toBe('br');
      expect(await compressed.text()).toBe(await plain.text());
    }
  });

  it('shows something after 100 KB at most', async () => {
    const archive = readFileSync((await freshDashboard()).path);
    const { index, files } = unpackPage(new Uint8Array(archive).buffer);
    const first = files.filter(({ name }) => index.includes(name));
    expect(first).toHaveLength(2);
    for (const { plain, brotli } of first) expect(brotliDecompressSync(brotli)).toEqual(Buffer.from(plain));
    expect(first.reduce((sum, { brotli }) => sum + brotli.length, index.length)).toBeLessThan(
      MOST_FIRST_BYTES,
    );
  });

  it('is under way with its first view, compressed, before its programs are there', async () => {
    expect(await documentAt('/workers/w-1')).toContain(
      '<link rel="preload" as="fetch" crossorigin href="../api/fleet">',
    );
    const plain = await fetch(`${road.url}/api/fleet`, { headers: { 'accept-encoding': 'identity' } });
    expect(plain.headers.get('content-encoding')).toBeNull();
    const compressed = await fetch(`${road.url}/api/fleet`, {
      headers: { 'accept-encoding': 'gzip, br' },
    });
    expect(compressed.headers.get('content-encoding')).toBe('gzip');
    expect(Object.keys((await compressed.json()) as object)).toEqual(
      Object.keys((await plain.json()) as object),
    );
  });

  it('contains no zod, which its policy forbids to compile anything', async () => {
    const archive = readFileSync((await freshDashboard()).path);
    const { files } = unpackPage(new Uint8Array(archive).buffer);
    const scripts = files.filter(({ name }) => name.endsWith('.js'));
    expect(scripts.map(({ name }) => name)).not.toEqual([]);
    for (const { name, plain } of scripts) {
      expect([name, Buffer.from(plain).includes('ZodError')]).toEqual([name, false]);
    }
  });

  it('says that a file of another version is gone', async () => {
    const response = await fetch(`${road.url}/assets/main-OLDER.js`);
    expect(response.status).toBe(404);
    expect(await response.text()).toContain('reload');
  });
});
