import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import type { TokenView } from '../../src/protocol/index.ts';
import { accessibilityFaults, type OpenPage } from '../support/browser.ts';
import { CLIENT_ID, type RunningIssuer, startIssuer } from '../support/oidc-provider.ts';
import { freePort } from '../support/ports.ts';
import { type QueueProcess, startQueue, tearDown } from '../support/road.ts';
import { openPage } from './page.ts';

/** People sign in to the page at their issuer, through the issuer's own pages, on another site than the queue. */

const RULES = [{ group: 'ml', scopes: ['submit', 'read'], tenant: 'research' }];
const PEOPLE = {
  ada: { email: 'ada@example.com', groups: ['ml'] },
  bob: { email: 'bob@example.com', groups: ['guests'] },
};
let issuer: RunningIssuer;
let queue: QueueProcess;
let host: string;
let open: OpenPage | null = null;

beforeAll(async () => {
  const port = await freePort();
  issuer = await startIssuer({
    host: 'localhost',
    people: PEOPLE,
    clientSecret: 'between-queue-and-issuer',
    redirectUris: [`http://127.0.0.1:${port}/api/session/oidc/callback`],
  });
  ({ host } = new URL(issuer.issuer));
  queue = await startQueue({
    port,
    env: {
      QUEUE_OIDC_ISSUER: issuer.issuer,
      QUEUE_OIDC_CLIENT_ID: CLIENT_ID,
      QUEUE_OIDC_CLIENT_SECRET: 'between-queue-and-issuer',
      QUEUE_OIDC_RULES: JSON.stringify(RULES),
      QUEUE_TOKENS: 'admin:operators-token',
    },
  });
});
afterEach(async () => {
  await open?.close();
  open = null;
});
afterAll(async () => {
  await tearDown();
  await issuer.stop();
});

async function atIssuer(path = '/') {
  open = await openPage();
  const { page } = open;
  await page.goto(`${queue.url}${path}`);
  await page.getByRole('button', { name: `Sign in with ${host}` }).click();
  await page.waitForURL(`${issuer.issuer}/**`);
  return page;
}

async function signInAs(name: string, path = '/') {
  const page = await atIssuer(path);
  await page.locator('input[name=login]').fill(name);
  await page.locator('input[name=password]').fill('anything');
  await page.locator('[type=submit]').click();
  await page.getByRole('button', { name: 'Continue' }).click();
  await page.waitForURL(`${queue.url}/**`);
  return page;
}

it('signs a person in to the view they came for, as themselves, and out again', async () => {
  const page = await signInAs('ada', '/jobs?state=failed');
  await page.getByRole('button', { name: 'Sign out' }).waitFor();
  expect(page.url()).toBe(`${queue.url}/jobs?state=failed`);
  const cookies = await page.context().cookies(queue.url);
  expect(cookies.map(({ name, httpOnly, sameSite }) => [name, httpOnly, sameSite])).toEqual([
    ['worker-vllm', true, 'Strict'],
  ]);
  const session = await page.evaluate(async () => await (await fetch('/api/session')).json());
  expect(session).toMatchObject({ name: 'oidc:ada@example.com', scopes: ['submit', 'read'] });
  const entry = await fetch(`${queue.url}/api/tokens/oidc:ada@example.com`, {
    headers: { authorization: 'Bearer operators-token' },
  });
  expect((await entry.json()) as TokenView).toMatchObject({
    tenant: 'research',
    source: 'oidc',
    oidc: { issuer: issuer.issuer, subject: 'ada', group: 'ml' },
  });
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByRole('heading', { name: 'Sign in' }).waitFor();
});

it('says why somebody without a rule is not signed in, once', async () => {
  const page = await signInAs('bob');
  const alert = page.getByRole('alert');
  await alert.waitFor();
  expect(await alert.textContent()).toMatch(/no rule for "bob@example.com".*lists "guests"/);
  expect(await accessibilityFaults(page)).toEqual([]);
  await page.reload();
  await page.getByRole('button', { name: `Sign in with ${host}` }).waitFor();
  expect(await alert.count()).toBe(0);
});

it('says that the issuer was told no', async () => {
  const page = await atIssuer();
  await page.getByRole('link', { name: /cancel/i }).click();
  await page.waitForURL(`${queue.url}/**`);
  await page.getByText(`${host} refused the sign-in`).waitFor();
  expect(page.url()).toBe(`${queue.url}/`);
});

it('takes no answer that this browser has not asked for', async () => {
  open = await openPage();
  const { page } = open;
  await page.goto(`${queue.url}/api/session/oidc/callback?code=stolen&state=made-up`);
  await page.getByText('was begun in another browser').waitFor();
  // Nor one of another sign-in than this browser has begun.
  await page.getByRole('button', { name: `Sign in with ${host}` }).click();
  await page.waitForURL(`${issuer.issuer}/**`);
  await page.goto(`${queue.url}/api/session/oidc/callback?code=stolen&state=made-up`);
  await page.getByText('did not come to its end').waitFor();
  expect(await page.getByRole('button', { name: 'Sign out' }).count()).toBe(0);
});
