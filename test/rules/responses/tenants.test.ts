import { beforeEach, describe, expect, it } from 'vitest';
import { FEATURE_ROUTES } from '../../../src/features/index.ts';
import { inputItems } from '../../../src/features/responses/create-body.ts';
import type { Fields } from '../../../src/features/responses/types.ts';
import { createApp } from '../../../src/gateway/app.ts';
import { acceptNothing, playedObjects } from '../../support/objects.ts';
import { ending, ResponsesHarness, ROOM } from '../../support/responses-harness.ts';
import { tokenEntry } from '../../support/token-entry.ts';

/** Routes of responses and conversations, asked with tokens of several tenants. */
const TOKENS = JSON.stringify([
  tokenEntry('owner', ['submit'], { tenant: 'a' }),
  tokenEntry('colleague', ['submit'], { tenant: 'a' }),
  tokenEntry('stranger', ['submit'], { tenant: 'b' }),
  tokenEntry('operator', ['admin']),
  tokenEntry('looker', ['read']),
  tokenEntry('gpu', ['worker']),
  tokenEntry('denied', ['submit'], { tenant: 'a', store: 'deny' }),
  tokenEntry('full', ['submit'], { tenant: 'a', stored_bytes: 1 }),
]);
const ABOUT_ONE = createApp(FEATURE_ROUTES).rows.filter(({ path }) =>
  /^\/v1\/(?:responses|conversations)\/:id/.test(path),
);

let harness: ResponsesHarness;
let response: string;
let conversation: string;
let item: string;

beforeEach(async () => {
  harness = new ResponsesHarness();
  conversation = await harness.conversation('a', 'secret');
  const { asked } = await harness.begin({ input: 'secret' }, 'a');
  await harness.object.keep(asked, ending('secret'), 'a');
  response = asked.id;
  [item] = await itemIds();
});

async function itemIds(): Promise<[string]> {
  const wanted = { after: null, limit: 20, order: 'asc' as const };
  const page = await harness.object.conversationItems(conversation, wanted, null);
  return (page as { data: { id: string }[] }).data.map(({ id }) => id) as [string];
}

async function ask(who: string | null, method: string, path: string, body?: unknown) {
  const env = {
    objects: playedObjects({ responses: () => harness.object }),
    acceptUpgrade: acceptNothing,
    TOKENS,
  };
  const request = new Request(`https://queue.example${path}`, {
    method,
    headers: { ...(who !== null && { authorization: `Bearer ${who}` }), 'content-type': 'application/json' },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  const lasting = { waitUntil: () => {}, passThroughOnException: () => {}, props: {} };
  const answer = await createApp(FEATURE_ROUTES).fetch(request, env, lasting);
  return { status: answer.status, text: await answer.text() };
}

const codeOf = ({ text }: { text: string }): unknown => Object(JSON.parse(text)).error?.code;

describe.each(ABOUT_ONE)('$method $path', ({ method, path }) => {
  const about = () =>
    path.replace(':item', item).replace(':id', path.includes('conversations') ? conversation : response);
  const body =
    method === 'POST' ? { metadata: { a: 'b' }, items: [{ role: 'user', content: 'more' }] } : undefined;

  it('is 404 for another tenant, as for what was never there, and changes nothing', async () => {
    const foreign = await ask('stranger', method, about(), body);
    expect(foreign.status).toBe(404);
    expect(foreign.text).not.toContain('secret');
    const [none] = [about().replace(conversation, 'conv_none').replace(response, 'resp_none')];
    const missing = await ask('owner', method, none!, body);
    expect([missing.status, codeOf(missing)]).toEqual([404, codeOf(foreign)]);
    expect(await itemIds()).toEqual([item]);
    expect(await harness.object.get(response, 'a')).not.toBeNull();
    const { metadata } = (await harness.object.getConversation(conversation, 'a')) as Fields;
    expect(metadata).toEqual({});
  });

  it.each(['owner', 'colleague', 'operator'])('is there for the token %s', async (who) => {
    const { status } = await ask(who, method, about(), body);
    // Only a response in the background can be cancelled.
    expect(status).toBe(path.endsWith('/cancel') ? 400 : 200);
  });

  it('asks for a token with the scope submit', async () => {
    expect((await ask(null, method, about(), body)).status).toBe(401);
    for (const who of ['looker', 'gpu']) expect((await ask(who, method, about(), body)).status).toBe(403);
  });
});

describe('POST /v1/responses', () => {
  const ORDINARY = { model: 'tiny', input: 'Hi' };
  const make = (who: string, more: Fields) => ask(who, 'POST', '/v1/responses', { ...ORDINARY, ...more });

  it('does not go on from what is another tenant’s', async () => {
    for (const id of [response, 'resp_none']) {
      const said = await make('stranger', { previous_response_id: id });
      expect([said.status, codeOf(said)]).toEqual([400, 'previous_response_not_found']);
      expect(said.text).toContain('"param":"previous_response_id"');
    }
    for (const id of [conversation, 'conv_none']) {
      const said = await make('stranger', { conversation: { id } });
      expect([said.status, codeOf(said)]).toEqual([404, 'conversation_not_found']);
    }
    // Nothing is locked by it.
    expect(await harness.object.addItems(conversation, inputItems('x'), 'a', null, ROOM)).toHaveProperty(
      'items',
    );
  });

  it('stores nothing for a token that may not, and no more than it may', async () => {
    for (const more of [{ store: true }, { background: true }, { background: true, store: false }]) {
      const said = await make('denied', more);
      expect([said.status, codeOf(said)]).toEqual([403, 'store_denied']);
    }
    const added = { items: [{ role: 'user', content: 'x' }] };
    for (const path of ['/v1/conversations', `/v1/conversations/${conversation}/items`]) {
      expect(codeOf(await ask('denied', 'POST', path, added))).toBe('store_denied');
      expect(codeOf(await ask('full', 'POST', path, added))).toBe('storage_limit_exceeded');
    }
    expect((await make('full', {})).status).toBe(429);
    expect(await itemIds()).toEqual([item]);
  });
});

describe('a body that cannot be read', () => {
  it.each([
    ['/v1/responses', [], null],
    ['/v1/responses', null, null],
    ['/v1/responses', { input: 5 }, 'input'],
    ['/v1/responses', { input: ['Hi'] }, 'input'],
    ['/v1/responses', { input: 5, previous_response_id: 'resp_none' }, 'input'],
    ['/v1/responses', { input: 'Hi', conversation: {} }, 'conversation.id'],
    ['/v1/responses/input_tokens', 'Hi', null],
    ['/v1/responses/input_tokens', { input: 5 }, 'input'],
    ['/v1/conversations/conv_none', {}, 'metadata'],
    ['/v1/conversations/conv_none', [], null],
    ['/v1/conversations/conv_none/items', [], null],
    ['/v1/conversations/conv_none/items', {}, 'items'],
  ])('is 400 on %s: %j', async (path, body, param) => {
    const said = await ask('owner', 'POST', path, body);
    expect(said.status).toBe(400);
    expect(Object(JSON.parse(said.text)).error).toMatchObject({ param, type: 'invalid_request_error' });
  });
});

describe('POST /v1/conversations', () => {
  it.each([
    [{ items: 'x' }, 'items'],
    [{ items: Array.from({ length: 21 }, () => ({ role: 'user', content: 'x' })) }, 'items'],
    [{ items: [1] }, 'items'],
    [{ metadata: { a: 1 } }, 'metadata'],
    [[], null],
  ])('is 400 for %j', async (body, param) => {
    const said = await ask('owner', 'POST', '/v1/conversations', body);
    expect(said.status).toBe(400);
    expect(Object(JSON.parse(said.text)).error).toMatchObject({ param, type: 'invalid_request_error' });
  });

  it('makes an empty one without a body', async () => {
    const said = await ask('owner', 'POST', '/v1/conversations');
    expect(JSON.parse(said.text)).toMatchObject({ object: 'conversation', metadata: {} });
  });
});
