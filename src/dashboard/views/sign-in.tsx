import { useState } from 'preact/hooks';
import { ApiFailure } from '../api.ts';
import { Command } from '../controls/copy-button.tsx';
import { signIn } from '../session.ts';

/** Asks for a token, once; a cookie stands for it from then on. */
export function SignInView() {
  const [token, setToken] = useState('');
  const [problem, setProblem] = useState<string | null>(null);
  const [isSending, setSending] = useState(false);
  const submit = async (event: Event) => {
    event.preventDefault();
    setSending(true);
    setProblem(null);
    try {
      await signIn(token);
    } catch (error) {
      if (!(error instanceof ApiFailure)) throw error;
      setProblem(error.message);
    } finally {
      setSending(false);
    }
  };
  return (
    <section class="view sign-in" aria-labelledby="sign-in-title">
      <h1 id="sign-in-title">Sign in</h1>
      <p>This queue asks for a token. The scope read shows everything; submit and admin also act.</p>
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
          aria-describedby={problem ? 'sign-in-problem' : undefined}
        />
        <button type="submit" class="primary" disabled={isSending}>
          Sign in
        </button>
      </form>
      {problem && (
        <p id="sign-in-problem" class="problem" role="alert">
          {problem}
        </p>
      )}
      <p class="dim">Whoever runs the queue makes one there, and restarts it:</p>
      <Command text="npx worker-vllm token create --scope read" />
      <p class="dim">The token is sent once and not kept; you stay signed in for 12 hours.</p>
    </section>
  );
}
