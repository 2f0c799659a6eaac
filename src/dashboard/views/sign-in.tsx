import { useEffect, useState } from 'preact/hooks';
import type { OidcView } from '../../protocol/tokens.ts';
import { ask } from '../api.ts';
import { Command, Problem, useAction } from '../controls/action.tsx';
import { signIn, signInAtIssuer } from '../session.ts';

/** Shows how to sign in: at the issuer, if there is one, and with a token; from then on a cookie stands for either. */
export function SignInView() {
  const [oidc, setOidc] = useState<OidcView | null>(null);
  useEffect(() => {
    ask<OidcView>('api/session/oidc').then(setOidc, () => {});
  }, []);
  const { issuer = null, problem = null } = oidc ?? {};
  return (
    <section class="view sign-in" aria-labelledby="sign-in-title">
      <h1 id="sign-in-title">Sign in</h1>
      <p>This queue asks who you are.</p>
      {issuer !== null && <AtIssuer host={issuer} before={problem} />}
      <WithToken isOther={issuer !== null} />
    </section>
  );
}

/** @param before why the last sign-in of this browser failed */
function AtIssuer({ host, before }: { host: string; before: string | null }) {
  const { act, isActing, problem } = useAction();
  return (
    <>
      <Problem text={problem ?? before} />
      <p>
        <button type="button" class="primary" disabled={isActing} onClick={() => act(signInAtIssuer)}>
          Sign in with {host}
        </button>
      </p>
    </>
  );
}

/** Shows the form that asks for a token, once. @param isOther whether there is another way to sign in */
function WithToken({ isOther }: { isOther: boolean }) {
  const [token, setToken] = useState('');
  const { act, isActing, problem } = useAction();
  const submit = (event: Event) => {
    event.preventDefault();
    return act(() => signIn(token));
  };
  return (
    <>
      <p>
        {isOther && 'Or sign in with a token. '}
        {'A token with the scope read shows everything; one with submit or admin can act as well.'}
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
        <button type="submit" class={isOther ? '' : 'primary'} disabled={isActing}>
          {isActing ? 'Signing in …' : 'Sign in'}
        </button>
      </form>
      <Problem text={problem} />
      <p class="dim">Whoever runs the queue makes a token on its machine:</p>
      <Command text="npx worker-vllm token create --scope read" />
      <p class="dim">This page sends the token once and does not keep it. You stay signed in for 12 hours.</p>
    </>
  );
}
