import { useState } from 'preact/hooks';
import { Command, Problem, useAction } from '../controls/action.tsx';
import { signIn } from '../session.ts';

/** Shows the form that asks for a token, once; from then on a cookie replaces it. */
export function SignInView() {
  const [token, setToken] = useState('');
  const { act, isActing, problem } = useAction();
  const submit = (event: Event) => {
    event.preventDefault();
    return act(() => signIn(token));
  };
  return (
    <section class="view sign-in" aria-labelledby="sign-in-title">
      <h1 id="sign-in-title">Sign in</h1>
      <p>
        This queue asks who you are. A token with the scope read shows everything; one with submit or admin
        can act as well.
      </p>
      <form onSubmit={submit}>
        <label for="token">Token</label>
        <input
          id="token"
          type="password"
          autocomplete="current-password"
          spellcheck={false}
          required
          placeholder="wv_…"
          value={token}
          onInput={(event) => setToken(event.currentTarget.value)}
        />
        <button type="submit" class="primary" disabled={isActing}>
          {isActing ? 'Signing in …' : 'Sign in'}
        </button>
      </form>
      <Problem text={problem} />
      <p class="dim">Whoever runs the queue makes a token on its machine:</p>
      <Command text="npx worker-vllm token create --scope read" />
      <p class="dim">This page sends the token once and does not keep it. You stay signed in for 12 hours.</p>
    </section>
  );
}
