import { computed, effect, signal } from '@preact/signals';
import type { SessionView } from '../protocol/sign-in.ts';
import { ask } from './api.ts';
import { denial, resume } from './live.ts';

/** Whom the page acts for; null: not known yet. */
export const session = signal<SessionView | null>(null);

/** Whether a token is asked for before anything is shown. */
export const isSignedOut = computed(
  () => session.value?.asks_for_token === true && session.value.name === null,
);

/** Whether jobs may be submitted, cancelled and run again from here. */
export const maySubmit = computed(
  () => session.value?.scopes.some((scope) => scope === 'submit' || scope === 'admin') ?? false,
);

/** Whether what concerns all tenants is shown. */
export const mayRead = computed(
  () => session.value?.scopes.some((scope) => scope === 'read' || scope === 'admin') ?? false,
);

/** Whether workers may be launched and drained from here. */
export const isAdmin = computed(() => session.value?.scopes.includes('admin') ?? false);

/** Asks who is signed in. Without an answer nothing changes: the page's connection says so already. */
export async function loadSession(): Promise<void> {
  session.value = await ask<SessionView>('api/session').catch(() => session.peek());
}

// A sign-in ends after hours, or with its token, while the page stays open: then a token is asked for again.
effect(() => {
  if (denial.value?.status === 401) void loadSession();
});

/** @throws ApiFailure where the token is not taken */
export async function signIn(token: string): Promise<void> {
  session.value = await ask<SessionView>('api/session', { method: 'POST', body: JSON.stringify({ token }) });
  resume();
}

/** Everything that was shown goes with it. */
export async function signOut(): Promise<void> {
  await ask('api/session', { method: 'DELETE' });
  location.reload();
}
