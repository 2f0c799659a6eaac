import { readFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from 'node:http';
import { connect } from 'node:net';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import type { LimitView } from '../../src/protocol/index.ts';
import { makeToken, storeToken } from '../../src/state/tokens.ts';
import { accessibilityFaults, type OpenPage } from '../support/browser.ts';
import { until } from '../support/poll.ts';
import { type QueueProcess, startQueue, startWorker, tearDown } from '../support/road.ts';
import { openPage } from './page.ts';

/** Who may see the page, and what stands between it and the queue. */
let open: OpenPage | null = null;
const servers: Server[] = [];
/** Each breaks a WebSocket that goes through a proxy. */
const tunnels: (() => void)[] = [];

function breakTunnels(): void {
  for (const breakIt of tunnels.splice(0)) breakIt();
}

afterEach(async () => {
  await open?.close();
  open = null;
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
});
afterAll(tearDown);

const TOKENS = 'admin:operators-token,read:readers-token,read+submit:callers-token,worker:workers-token';
const startWithTokens = () => startQueue({ env: { QUEUE_TOKENS: TOKENS } });

interface ProxyOptions {
  /** Taken from the front of each path. */
  prefix?: string;
  /** Refuses WebSockets, as some do. */
  refusesUpgrades?: boolean;
}

/** A reverse proxy in front of a queue. @returns its address */
async function startProxy(queue: QueueProcess, { prefix = '', refusesUpgrades = false }: ProxyOptions = {}) {
  const target = (incoming: IncomingMessage) => ({
    host: '127.0.0.1',
    port: queue.port,
    method: incoming.method,
    path: incoming.url!.slice(prefix.length) || '/',
    headers: { ...incoming.headers, 'x-forwarded-for': '203.0.113.7' },
  });
  const server = createServer((incoming: IncomingMessage, outgoing: ServerResponse) => {
    if (!incoming.url!.startsWith(prefix)) return void outgoing.writeHead(404).end();
    const asked = request(target(incoming), (answer) => {
      outgoing.writeHead(answer.statusCode!, answer.headers);
      answer.pipe(outgoing);
    });
    asked.on('error', () => outgoing.destroy());
    incoming.pipe(asked);
  });
  server.on('upgrade', (incoming, socket) => {
    if (refusesUpgrades || !incoming.url!.startsWith(prefix))
      return void socket.end('HTTP/1.1 400 Bad Request\r\n\r\n');
    const { path, headers } = target(incoming);
    const there = connect(queue.port, '127.0.0.1', () => {
      const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
      there.write(`GET ${path} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`);
      there.pipe(socket).pipe(there);
    });
    tunnels.push(() => {
      there.destroy();
      socket.destroy();
    });
    for (const end of [there, socket])
      end.on('error', () => {
        there.destroy();
        socket.destroy();
      });
  });
  servers.push(server);
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  return `http://127.0.0.1:${(server.address() as { port: number }).port}${prefix}`;
}

async function signIn(url: string, token: string) {
  open = await openPage();
  const { page } = open;
  await page.goto(`${url}/`);
  await page.getByRole('heading', { name: 'Sign in' }).waitFor();
  await page.getByLabel('Token').fill(token);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('button', { name: 'Sign out' }).waitFor();
  return page;
}

describe('signing in', () => {
  it('asks for a token, refuses a wrong one, shows the fleet with a right one, and forgets it', async () => {
    const queue = await startWithTokens();
    open = await openPage();
    const { page } = open;
    await page.goto(queue.url);
    await page.getByLabel('Token').fill('wrong');
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByText('This token is not known here.').waitFor();
    await page.getByLabel('Token').fill('readers-token');
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByRole('heading', { name: 'Add the first worker' }).waitFor();
    await page.getByText('Live', { exact: false }).first().waitFor();
    const stored = await page.evaluate('JSON.stringify([localStorage, sessionStorage, document.cookie])');
    expect(stored).not.toContain('readers-token');
    expect(stored).not.toContain('worker-vllm=');
    await page.getByRole('link', { name: 'Try it' }).click();
    await page.getByText('may not submit').waitFor();
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByRole('heading', { name: 'Sign in' }).waitFor();
  });

  it('lets a token of the scope admin make others, rotate and revoke them', async () => {
    const queue = await startWithTokens();
    const page = await signIn(queue.url, 'operators-token');
    const statusOf = async (token: string) =>
      (await fetch(`${queue.url}/v1/models`, { headers: { authorization: `Bearer ${token}` } })).status;
    const shown = async () =>
      /wv_[\w-]{43}/.exec((await page.locator('[role=status].panel').textContent()) ?? '')?.[0] ?? '';
    await page.getByRole('link', { name: 'Tokens', exact: true }).click();
    // The list comes first; what makes a token is behind a button.
    await page.getByText('in QUEUE_TOKENS').first().waitFor();
    expect(await page.getByRole('form').count()).toBe(0);
    await page.getByRole('button', { name: 'Make a token' }).click();
    const labels = page
      .getByRole('form')
      .getByRole('textbox')
      .or(page.getByRole('form').getByRole('combobox'));
    expect(await labels.filter({ visible: true }).count()).toBeLessThanOrEqual(3);
    await page.getByText('Tenant, models and routes').click();
    await page.getByLabel('Its responses are').selectOption('never stored');
    await page.getByText('Limits, budgets and priorities').click();
    await page.getByLabel('Name', { exact: true }).fill('team-a');
    await page.getByLabel("Tenant, the token's name unless set").fill('research');
    await page.getByLabel('Models, all unless named').fill('qwen-*');
    await page.getByLabel('Dollars a day, at most').fill('2.5');
    await page.getByText('Budgets of its tenant').click();
    await page.getByLabel('Tokens a month, of the tenant').fill('5000000');
    await page.getByLabel('Dollars a month, of the tenant').fill('90');
    await page.getByRole('form').getByRole('button', { name: 'Make a token' }).click();
    await page.getByText('The token “team-a”').waitFor();
    expect(await page.getByRole('form').count()).toBe(0);
    await page.locator('.panel:focus', { hasText: 'team-a' }).waitFor();
    const first = await shown();
    expect(await statusOf(first)).toBe(200);
    expect(await page.locator('tr[data-id="api team-a"]').textContent()).toMatch(
      /submit[\s\S]*research[\s\S]*qwen-\*[\s\S]*\$2\.5\/day, its tenant: 5,000,000 tokens\/month, \$90\/month/,
    );
    const limits = await fetch(`${queue.url}/api/limits`, {
      headers: { authorization: 'Bearer readers-token' },
    });
    expect(await limits.json()).toMatchObject({
      limits: [
        { token_name: 'team-a', tenant: null, dollars_per_day: { used: 0, limit: 2.5 } },
        { token_name: 'team-a', tenant: 'research', dollars_per_month: { used: 0, limit: 90 } },
      ],
    });
    await page.getByRole('button', { name: 'Change team-a' }).click();
    const form = page.getByRole('form', { name: 'Change the token team-a' });
    expect(await form.getByLabel("Tenant, the token's name unless set").inputValue()).toBe('research');
    expect(await form.getByLabel('Tokens a month, of the tenant').inputValue()).toBe('5000000');
    await form.getByLabel('Requests a minute, at most').fill('7');
    await form.getByLabel('Dollars a day, at most').fill('');
    await form.getByLabel('Models, all unless named').fill('');
    await form.getByLabel('Routes, all unless named').fill('/v1/*');
    await form.getByLabel('Expires, never unless set').fill('2199-01-31');
    expect(await accessibilityFaults(page)).toEqual([]);
    await form.getByRole('button', { name: 'Save' }).click();
    await page.getByRole('button', { name: 'Make a token' }).waitFor();
    await page.locator('button:focus', { hasText: 'Change' }).waitFor();
    await page.locator('tr[data-id="api team-a"]', { hasText: '7 requests/min' }).waitFor();
    expect(await shown(), 'a secret that is shown once stays until it is put away').toBe(first);
    const token = await fetch(`${queue.url}/api/tokens/team-a`, {
      headers: { authorization: 'Bearer operators-token' },
    });
    // The form shows what held before, so saving it changes nothing else.
    expect(await token.json()).toMatchObject({
      tenant: 'research',
      store: 'deny',
      models: null,
      routes: ['/v1/*'],
      expires_at: '2199-01-31T00:00:00.000Z',
      limits: { requests_per_minute: 7, tenant: { tokens_per_month: 5_000_000, dollars_per_month: 90 } },
    });
    await until(async () => {
      const told = await fetch(`${queue.url}/api/limits`, {
        headers: { authorization: 'Bearer readers-token' },
      });
      const [own] = ((await told.json()) as { limits: LimitView[] }).limits;
      return own?.requests_per_minute.limit === 7 && own.dollars_per_day.limit === null;
    }, 'the queue has been told');
    await page.getByRole('button', { name: 'Rotate team-a' }).click();
    expect(await statusOf(first), 'nothing is done before it is said twice').toBe(200);
    await page.getByRole('button', { name: 'Rotate team-a, yes' }).click();
    await until(async () => (await shown()) !== first, 'another one is shown');
    expect([await statusOf(first), await statusOf(await shown())]).toEqual([401, 200]);
    await page.getByRole('button', { name: 'Revoke team-a' }).click();
    await page.getByRole('button', { name: 'Revoke team-a, yes' }).click();
    await page.locator('tr[data-id="api team-a"]').waitFor({ state: 'detached' });
    // The page has the commands for a token of the state folder, which the queue only reads.
    const { entry } = makeToken("olga's", ['read']);
    await storeToken(queue.stateDir, entry);
    await page.getByRole('button', { name: "Commands for olga's" }).click();
    await page.getByText("npx worker-vllm token revoke 'olga'\\''s'").waitFor();
    await page.goto(`${queue.url}/tokens`);
    await page.locator('tr[data-id^="file"]').first().waitFor();
    expect(await accessibilityFaults(page)).toEqual([]);
  });

  it('shows an admin what people did, filtered by a click, and nobody else', async () => {
    const queue = await startWithTokens();
    const page = await signIn(queue.url, 'operators-token');
    const ask = (method: string, path: string, body?: object) =>
      fetch(`${queue.url}${path}`, {
        method,
        headers: { authorization: 'Bearer operators-token' },
        ...(body && { body: JSON.stringify(body) }),
      });
    await ask('POST', '/api/tokens', { name: 'team-a', scopes: ['submit'] });
    await ask('PATCH', '/api/tokens/team-a', { models: ['qwen-*'] });
    await page.getByRole('link', { name: 'Audit' }).click();
    const rows = page.locator('tbody tr[data-id]');
    await page.getByText('models qwen-*').waitFor();
    expect(await rows.first().textContent()).toMatch(/QUEUE_TOKENS 1.*changed a token.*team-a.*Done/);
    // What is done while somebody looks comes by itself.
    await ask('DELETE', '/api/tokens/team-a');
    await page.getByRole('link', { name: 'revoked a token' }).click();
    await until(async () => (await rows.count()) === 1, 'the others are filtered out');
    expect(new URL(page.url()).search).toBe('?action=token.revoke');
    const [saved] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: 'Download as JSON lines' }).click(),
    ]);
    expect(saved.suggestedFilename()).toBe('audit.jsonl');
    const lines = (await readFile(await saved.path(), 'utf8')).trim().split('\n');
    expect(lines.map((line) => JSON.parse(line))).toMatchObject([
      { action: 'token.revoke', target: 'team-a' },
    ]);
    expect(await accessibilityFaults(page)).toEqual([]);
    await page.getByRole('button', { name: 'Sign out' }).click();
    await open?.close();
    const reader = await signIn(queue.url, 'readers-token');
    await reader.goto(`${queue.url}/audit`);
    await reader.getByText('Sign in with a token of the scope admin to see what people did.').waitFor();
    expect(await reader.getByRole('link', { name: 'Audit' }).count()).toBe(0);
  });

  it('lets a token of the scope submit chat', async () => {
    const queue = await startWithTokens();
    await startWorker(queue.url, 'w', { env: { CASOLA_API_TOKEN: 'workers-token' } });
    const page = await signIn(queue.url, 'callers-token');
    await page.getByText('Serving', { exact: true }).waitFor();
    await page.getByRole('link', { name: 'Try it' }).click();
    await page.getByLabel('Message').fill('Say hello.');
    await page.getByRole('button', { name: 'Send' }).click();
    await page.getByText('whole answer after').waitFor();
    await page.getByText('-H "Authorization: Bearer $TOKEN"').waitFor();
  });
});

describe('a page that stays open', () => {
  it('is live again after a broken connection, though nothing happens', async () => {
    const queue = await startWithTokens();
    const url = await startProxy(queue);
    const page = await signIn(url, 'readers-token');
    await page.locator('.freshness', { hasText: 'Live' }).waitFor();
    breakTunnels();
    await page.locator('.freshness', { hasText: 'Lost' }).waitFor();
    await page.locator('.freshness', { hasText: 'Live' }).waitFor();
  });

  it('asks for a token again once its sign-in is over', async () => {
    const queue = await startWithTokens();
    const url = await startProxy(queue);
    const page = await signIn(url, 'readers-token');
    await page.locator('.freshness', { hasText: 'Live' }).waitFor();
    await page.context().clearCookies();
    breakTunnels();
    await page.getByRole('heading', { name: 'Sign in' }).waitFor();
  });
});

describe('behind a proxy', () => {
  it('that strips a path it is live, and its links and addresses hold', async () => {
    const queue = await startWithTokens();
    const url = await startProxy(queue, { prefix: '/tools/fleet' });
    const page = await signIn(url, 'readers-token');
    await page.getByText('Live', { exact: false }).first().waitFor();
    await page.getByRole('link', { name: 'Jobs' }).first().click();
    await page.waitForURL(`${url}/jobs`);
    await page.reload();
    await page.getByText('No job is stored').waitFor();
    await page.goto(`${url}/workers/none`);
    await page.getByText('Live', { exact: false }).first().waitFor();
  });

  it('that refuses WebSockets it asks every five seconds, and says so', async () => {
    const queue = await startWithTokens();
    const url = await startProxy(queue, { refusesUpgrades: true });
    const page = await signIn(url, 'readers-token');
    await page.getByText('refuses WebSockets').waitFor();
    const body = JSON.stringify({ instance_id: 'seen-by-polling', status: 'starting', config_id: 'cfg' });
    const headers = { authorization: 'Bearer workers-token' };
    await fetch(`${queue.url}/api/heartbeats`, { method: 'POST', headers, body });
    await page.getByRole('link', { name: 'seen-by-polling' }).waitFor();
  });
});
