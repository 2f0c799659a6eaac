import { computed, effect, signal } from '@preact/signals';
import type { SessionView } from '../protocol/tokens.ts';
import { ask } from './api.ts';
import { denial, resume } from './live.ts';

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

// A sign-in ends after hours, or with its token, even while the page is open; the page then asks for a token again.
effect(() => {
  if (denial.value?.status === 401) void loadSession();
});

/** Signs in. @throws ApiFailure if the token is refused */
export async function signIn(token: string): Promise<void> {
  session.value = await ask<SessionView>('api/session', { method: 'POST', body: JSON.stringify({ token }) });
  resume();
}

/** Signs out and loads the page again, which removes everything that was shown. */
export async function signOut(): Promise<void> {
  await ask('api/session', { method: 'DELETE' });
  location.reload();
}
