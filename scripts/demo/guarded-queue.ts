import type { Browser } from 'playwright-core';
import { makeToken, storeToken } from '../../src/state/tokens.ts';
import { startQueue, stateFolder } from '../../test/support/road.ts';

/** A queue that asks for tokens, with the secret of an admin's. */
interface GuardedQueue {
  url: string;
  token: string;
}

/** Starts a queue with tokens of its folder and tokens that were made while it runs. */
export async function startGuardedQueue(): Promise<GuardedQueue> {
  const stateDir = stateFolder();
  const { token, entry } = makeToken('olga', ['admin']);
  const others = [makeToken('grafana', ['read']), makeToken('gpu-workers', ['worker'])];
  for (const one of [entry, ...others.map(({ entry }) => entry)]) await storeToken(stateDir, one);
  const { url } = await startQueue({ stateDir });
  const make = async (name: string, more: object) => {
    const body = JSON.stringify({ name, scopes: ['submit'], ...more });
    const headers = { authorization: `Bearer ${token}` };
    const { ok, status } = await fetch(`${url}/api/tokens`, { method: 'POST', headers, body });
    if (!ok) throw new Error(`the token ${name} was answered ${status}`);
  };
  await make('chat-app', { tenant: 'product', limits: { requests_per_minute: 600, dollars_per_day: 40 } });
  await make('nightly-evaluation', { tenant: 'research', models: ['qwen-*'], limits: { running: 32 } });
  await make('contractor', {
    tenant: 'research',
    expires_at: '2027-03-31T00:00:00Z',
    routes: ['/v1/embeddings'],
  });
  return { url, token };
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
