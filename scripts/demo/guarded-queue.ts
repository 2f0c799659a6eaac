import type { Browser } from 'playwright-core';
import { makeToken, storeToken } from '../../src/state/tokens.ts';
import { startReceiver } from '../../test/support/receiver.ts';
import { startQueue, stateFolder } from '../../test/support/road.ts';

/** A queue that asks for tokens, with the secret of an admin's. */
interface GuardedQueue {
  url: string;
  token: string;
  /** Ends the receivers of its alerts. */
  stop(): Promise<void>;
}

/** Starts a queue with tokens of its folder and tokens that were made while it runs, receivers of alerts and a mute. */
export async function startGuardedQueue(): Promise<GuardedQueue> {
  const stateDir = stateFolder();
  const { token, entry } = makeToken('olga', ['admin']);
  const others = [makeToken('grafana', ['read']), makeToken('gpu-workers', ['worker'])];
  for (const one of [entry, ...others.map(({ entry }) => entry)]) await storeToken(stateDir, one);
  const [chat, desk] = [await startReceiver(), await startReceiver({ status: 503 })];
  const env = { QUEUE_ALERTS: JSON.stringify(receiversAt(chat.url, desk.url)) };
  const { url } = await startQueue({ stateDir, env });
  const post = async (path: string, given: object = {}) => {
    const headers = { authorization: `Bearer ${token}` };
    const asked = { method: 'POST', headers, body: JSON.stringify(given) };
    const { ok, status } = await fetch(`${url}${path}`, asked);
    if (!ok) throw new Error(`${path} was answered ${status}`);
  };
  const make = (name: string, more: object) => post('/api/tokens', { name, scopes: ['submit'], ...more });
  await make('chat-app', { tenant: 'product', limits: { requests_per_minute: 600, dollars_per_day: 40 } });
  await make('nightly-evaluation', { tenant: 'research', models: ['qwen-*'], limits: { running: 32 } });
  await make('contractor', {
    tenant: 'research',
    expires_at: '2027-03-31T00:00:00Z',
    routes: ['/v1/embeddings'],
  });
  for (const name of ['team', 'desk']) await post(`/api/alerts/receivers/${name}/test`);
  await post('/api/alerts/mutes', { pool: 'llama-*', kind: 'worker_lost', for: '8h', why: 'new drivers' });
  return { url, token, stop: async () => void (await Promise.all([chat.stop(), desk.stop()])) };
}

/** Receivers of which one takes what it is sent, one does not, and two were sent nothing yet. */
function receiversAt(chat: string, desk: string): object[] {
  return [
    { name: 'team', kind: 'slack', url: chat },
    {
      name: 'on-call',
      kind: 'pagerduty',
      routing_key: '0123456789abcdef0123456789abcdef',
      severity: 'error',
    },
    { name: 'desk', kind: 'webhook', url: `${desk}/alerts` },
    {
      name: 'llama-owners',
      kind: 'email',
      server: 'smtp://mail.example.com',
      from: 'queue@example.com',
      to: ['llama@example.com'],
      pools: ['llama-*'],
    },
  ];
}

/** Signs in as the page does. @returns the cookie, for a browser */
export async function signedIn(browser: Browser, { url, token }: GuardedQueue) {
  const context = await browser.newContext();
  const answer = await context.request.post(`${url}/api/session`, {
    headers: { origin: url },
    data: { token },
  });
  if (!answer.ok()) throw new Error(`the sign-in was answered ${answer.status()}: ${await answer.text()}`);
  const state = await context.storageState();
  await context.close();
  return state;
}
