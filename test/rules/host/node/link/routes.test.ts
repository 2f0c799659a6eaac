import { createHash } from 'node:crypto';
import { expect, it } from 'vitest';
import { errorResponse, toHttpError } from '../../../../../src/gateway/errors.ts';
import { Gateway, type GatewayContext } from '../../../../../src/gateway/routes/route.ts';
import { Links } from '../../../../../src/host/node/link/links.ts';
import { linkRoutes } from '../../../../../src/host/node/link/routes.ts';

const sha256 = (text: string) => createHash('sha256').update(text).digest('hex');
const entry = (name: string, ...scopes: string[]) => ({ name, sha256: sha256(name), scopes });

/** Requests a file as a gateway process does. */
async function fileWith(headers: Record<string, string>): Promise<Response> {
  const entries = [entry('gateway', 'gateway'), entry('admin', 'admin'), entry('worker', 'worker')];
  const signIns = { token_sha256: sha256('admin'), expires_at: Date.now() + 60_000 };
  const objects = {
    fleet: () => ({
      tokens: async () => ({ version: 1, entries: [] }),
      tokenUses: async () => ({}),
      auditFileTokens: async () => {},
      signedIn: async (id: string) => (id === sha256('cookie') ? signIns : null),
    }),
    files: () => ({ content: async () => new Response('a prompt') }),
  } as never;
  const links = new Links({
    objects: () => objects,
    welcome: () => ({}) as never,
    peers() {},
    problem: () => null,
    log() {},
  });
  const app = new Gateway();
  linkRoutes(links)(app);
  app.onError((error) => errorResponse(toHttpError(error)));
  const env = { objects, TOKENS: JSON.stringify(entries) } as unknown as GatewayContext['env'];
  return await app.request('http://queue/link/file?queue=default&id=f', { headers }, env);
}

it('lets gateway processes in', async () => {
  const answer = await fileWith({ authorization: 'Bearer gateway' });
  expect(await answer.text()).toBe('a prompt');
});

it('refuses tokens without the scope, and those that it does not know', async () => {
  expect((await fileWith({ authorization: 'Bearer worker' })).status).toBe(403);
  expect((await fileWith({ authorization: 'Bearer other' })).status).toBe(401);
  expect((await fileWith({})).status).toBe(401);
});

it('refuses the sign-in of a page, which may not read prompts', async () => {
  const answer = await fileWith({ cookie: 'worker-vllm=cookie' });
  expect(answer.status).toBe(403);
  expect(await answer.text()).toContain('the sign-in of a page is none');
});
