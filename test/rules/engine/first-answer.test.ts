import { describe, expect, it } from 'vitest';
import { askForFirstAnswer } from '../../../src/engine/client/first-answer.ts';
import { EngineGone } from '../../../src/engine/client/types.ts';
import { answered } from '../../support/fake-engine.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

const TOKEN = '{"choices":[{"text":"Hi"}]}';

type Answers = Record<string, () => ReturnType<typeof answered>>;

/** Asks an engine that has these routes alone. */
async function ask(routes: Answers, clock = new VirtualClock()) {
  const asked: string[] = [];
  const request = ({ path }: { path: string }) => {
    asked.push(path);
    return routes[path]?.() ?? answered('{"detail":"Not Found"}', 404);
  };
  const found = askForFirstAnswer({ engine: { request }, clock }, 'tiny', 60_000);
  await clock.advance(61_000);
  return { asked, found: await found };
}

describe('the first answer of an engine', () => {
  it('is one token, by the first route that it has', async () => {
    expect(await ask({ '/v1/completions': () => answered(TOKEN) })).toEqual({
      asked: ['/v1/completions'],
      found: null,
    });
    const chats = await ask({ '/v1/chat/completions': () => answered(TOKEN) });
    expect(chats).toEqual({ asked: ['/v1/completions', '/v1/chat/completions'], found: null });
  });

  it('is an embedding of a model that makes no tokens', async () => {
    const fails = () => answered('no', 500);
    const embeds = () => answered('{"data":[{"embedding":[0.1]}]}');
    expect((await ask({ '/v1/completions': fails, '/v1/embeddings': embeds })).found).toBeNull();
  });

  it.each([
    [404, 'no such route'],
    [400, 'The model does not support Completions API'],
    [501, 'not implemented'],
    [405, 'method not allowed'],
  ])('is also %i from an engine with other routes alone', async (status, text) => {
    const says = () => answered(text, status);
    expect((await ask({ '/v1/completions': says, '/v1/chat/completions': says })).found).toBeNull();
  });

  it('is also that the engine has too much to do for others', async () => {
    expect((await ask({ '/v1/completions': () => answered('', 429) })).found).toBeNull();
  });

  it.each([
    [500, '{"error":{"message":"CUDA error"}}', 'POST /v1/completions is 500: CUDA error'],
    [200, '<html>', 'POST /v1/completions is 200, and no answer of an engine'],
    [200, '{"choices":[]}', 'POST /v1/completions is 200, and no answer of an engine'],
    [401, '', 'it wants another key: POST /v1/completions is 401'],
    [503, '', 'it said 503, and that it cannot answer now: no answer within 60 s'],
  ])('is none from %i %s', async (status, text, problem) => {
    expect((await ask({ '/v1/completions': () => answered(text, status) })).found?.problem).toBe(problem);
  });

  it('is asked for again while the engine cannot answer yet', async () => {
    let left = 3;
    const starts = () => {
      left -= 1;
      return left > 0 ? answered('', 503) : answered(TOKEN);
    };
    expect((await ask({ '/v1/completions': starts })).found).toBeNull();
  });

  it('is none where the connection breaks, or nothing comes in time', async () => {
    const breaks = () => Promise.reject(new EngineGone('it broke the connection'));
    expect((await ask({ '/v1/completions': breaks })).found?.problem).toBe('it broke the connection');
    const silent = () => new Promise<never>(() => {});
    expect((await ask({ '/v1/completions': silent })).found?.problem).toBe('no answer within 60 s');
  });
});
