import { computed, effect, signal } from '@preact/signals';
import type { OidcStarted, SessionView } from '../protocol/tokens.ts';
import { ApiFailure, ask } from './api.ts';
import { connection, denial, resume } from './live.ts';
import { at } from './router.ts';

/** The session in which the page acts; null until it is known. */
export const session = signal<SessionView | null>(null);

/** Whether the page asks for a token before it shows anything. */
export const isSignedOut = computed(
  () => session.value?.asks_for_token === true && session.value.name === null,
);

/** Whether the page may submit, cancel and retry jobs. */
export const maySubmit = computed(
  () => session.value?.scopes.some((scope) => scope === 'submit' || scope === 'admin') ?? false,
);

/** Whether the page shows what concerns all tenants. */
export const mayRead = computed(
  () => session.value?.scopes.some((scope) => scope === 'read' || scope === 'admin') ?? false,
);

/** Whether the page may launch and drain workers. */
export const isAdmin = computed(() => session.value?.scopes.includes('admin') ?? false);

/** Reads who is signed in. Without an answer nothing changes, since the page's connection already reports that. */
export async function loadSession(): Promise<void> {
  session.value = await ask<SessionView>('api/session').catch(() => session.peek());
}

// A sign-in ends after hours, or with its token, even while the page is open; the page then asks for a token again. A
// queue that did not answer when the page was opened is asked once it does.
effect(() => {
  const isAnswered = connection.value === 'live' || connection.value === 'polling';
  if (denial.value?.status === 401 || (isAnswered && session.peek() === null)) void loadSession();
});

/** The answer to a sign-in is due within this many ms. */
const SIGN_IN_MS = 15_000;

/** Signs in. @throws ApiFailure if the token is refused, or nothing answers */
export async function signIn(token: string): Promise<void> {
  const signal = AbortSignal.timeout(SIGN_IN_MS);
  const body = JSON.stringify({ token });
  try {
    session.value = await ask<SessionView>('api/session', { method: 'POST', body, signal });
  } catch (error) {
    if ((error as ApiFailure).status !== 0) throw error;
    throw new ApiFailure(0, 'The queue does not answer. Check that it runs, then sign in again.', null);
  }
  resume();
}

/** Goes to the issuer, which sends the browser back to this view. @throws ApiFailure if the sign-in cannot be begun */
export async function signInAtIssuer(): Promise<void> {
  const body = JSON.stringify({ page: at(''), at: location.href });
  const { url } = await ask<OidcStarted>('api/session/oidc', { method: 'POST', body });
  location.assign(url);
}

/** Signs out and loads the page again, which removes everything that was shown. */
export async function signOut(): Promise<void> {
  await ask('api/session', { method: 'DELETE' });
  location.reload();
}
