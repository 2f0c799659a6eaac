import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { jobRouteProblem } from '../../../src/gateway/auth/permissions.ts';
import { PASSED_THROUGH } from '../../../src/gateway/routes/inference.ts';
import { movePlan } from '../../../src/moving/plan.ts';
import {
  dialectOf,
  ENGINE_ROUTES,
  type EngineRoute,
  engineRoute,
  INFERENCE_ROUTES,
  isInferenceRoute,
  readWholeAnswer,
  routeAt,
  routeLike,
} from '../../../src/protocol/index.ts';
import { suitsBase } from '../../../src/queue/job-frame.ts';
import { jobFacts } from '../../../src/request-facts/job-facts.ts';
import { lengthsOf } from '../../../src/request-facts/lengths.ts';
import { prefillable } from '../../../src/worker/prefill/request.ts';
import { namesAudio } from '../../../src/worker/run/request-body.ts';
import { genAiRequest } from '../../../src/worker/tracing/attributes.ts';

const LONG = 'word '.repeat(2000);
/** The prompt of each form of request. */
const PROMPTS: Record<NonNullable<EngineRoute['generates']>, object> = {
  chat: { messages: [{ role: 'user', content: LONG }] },
  chats: { messages: [[{ role: 'user', content: 'a' }], [{ role: 'user', content: 'b' }]] },
  text: { prompt: LONG },
  tokens: { token_ids: [1, 2, 3] },
  response: { input: LONG },
  message: { messages: [{ role: 'user', content: LONG }] },
  invocation: { prompt: LONG },
};

const encoded = (value: object) => new TextEncoder().encode(JSON.stringify(value));
const inRow = ENGINE_ROUTES.map((row) => [row.path, row] as const);

describe.each(inRow)('%s', (path, row) => {
  const asked = path.replaceAll('{id}', 'x-1');
  const prompt = row.generates === null ? { input: LONG } : PROMPTS[row.generates];
  const body = JSON.stringify({ ...prompt, stream: true });
  const payload = (more: object = {}) => JSON.stringify({ method: 'POST', path: asked, body, ...more });

  it('is found with a query and a slash, and with exactly its path', () => {
    for (const given of [asked, `${asked}/`, `${asked}?a=/b`]) expect(engineRoute(given)).toBe(row);
    expect(routeAt(`${path}/`)).toBeNull();
    expect(routeLike(asked)).toBe(row);
  });

  it('may be requested with its methods alone', () => {
    for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'] as const) {
      const isOn = row.methods.some((on) => on === method);
      expect(isInferenceRoute(method, asked)).toBe(isOn);
    }
  });

  it('is counted against limits as a route that generates, or as one that does not', () => {
    const fields = Object.fromEntries(Object.entries(prompt).map(([name, value]) => [name, encoded(value)]));
    const { answers } = lengthsOf(asked, body.length, fields);
    expect(answers > 0).toBe(row.generates !== null);
  });

  it('is moved as its row says', () => {
    const plan = movePlan(asked, body);
    if (row.moves === null) return expect(plan).toBe('answers of its route are not moved');
    expect(plan).toMatchObject({ path });
    // What is moved has been generated token by token, and its reader has to know whether it is whole.
    expect(row).toMatchObject({ generates: row.moves, closes: true, list: 'choices' });
  });

  it('is prefilled elsewhere if it is a chat or a text', () => {
    const call = {
      method: 'POST',
      path: asked,
      body,
      headers: {},
      requestId: 'r',
      signal: AbortSignal.any([]),
    };
    expect(prefillable(call) !== null).toBe(row.generates === 'chat' || row.generates === 'text');
  });

  it('has errors in its dialect, as its neighbours have', () => {
    expect(dialectOf(asked)).toBe(row.dialect);
    expect(dialectOf(`/queues/q${asked}?x=1`)).toBe(row.dialect);
  });

  it('has answers with its list, and an error in the place of the list is one', () => {
    const said = { errors: ['no'], status: 'failed', object: 'response' };
    const { failed } = readWholeAnswer(asked, said);
    expect(failed).not.toBeNull();
    if (row.list !== null)
      expect(readWholeAnswer(asked, { errors: ['no'], [row.list]: [] }).failed).toBeNull();
  });

  it('is run by base workers if it is a task of theirs, and stands for its tasks', () => {
    expect(suitsBase('engine_request', payload())).toBe(row.task !== null);
    const tasks = [...row.otherTasks, ...(row.task === null ? [] : [row.task])];
    for (const task of tasks) expect(jobFacts(task, encoded({ task, input: 'a' })).request.path).toBe(path);
  });

  it('takes an address of audio if it takes audio', () => {
    expect(namesAudio({ method: 'POST', path: asked, body })).toBe(row.takesAudio);
  });

  it('has its operation in traces', () => {
    const { operation } = genAiRequest({ method: 'POST', path: `${asked}?x=1`, body });
    expect(operation).toBe(row.operation ?? asked.split('/').at(-1));
  });

  it('is no route of jobs, so that a token for it alone submits no job for another', () => {
    if (!row.methods.includes('POST')) return;
    const token = { name: 't', routes: [path] };
    expect(jobRouteProblem('/elsewhere', token)).toMatchObject({ code: 'route_denied' });
  });
});

describe('the table of routes', () => {
  it('has each path once, and reads none of a stranger as an object', () => {
    expect(new Set(ENGINE_ROUTES.map(({ path }) => path)).size).toBe(ENGINE_ROUTES.length);
    for (const path of ['constructor', '__proto__', '']) expect(routeLike(path)).toBeNull();
  });

  it('says how an added route is counted that ends like one of it', () => {
    expect(routeLike('/v3/chat/completions')?.path).toBe('/v1/chat/completions');
    expect(routeLike('/openai/v1/chat/completions/batch?x')?.generates).toBe('chats');
    expect(routeLike('/v1/ocr')).toBeNull();
    expect(engineRoute('/v3/chat/completions')).toBeNull();
  });

  it('is described by the document of the API', () => {
    const described = PASSED_THROUGH.map(({ method, path }) => `${method} ${path.replaceAll(':id', '{id}')}`);
    expect(described.toSorted()).toEqual(
      INFERENCE_ROUTES.filter((route) => !route.startsWith('GET /v1/models')).toSorted(),
    );
  });

  it('stands in the documents', () => {
    const page = readFileSync(new URL('../../../docs/http.md', import.meta.url), 'utf8');
    const missing = ENGINE_ROUTES.filter(({ path }) => {
      const isNamed = page.includes(`${path}\``);
      const isMeant = /render$/.test(path) || page.includes(`${path.replace(/^\/v1(?=\/)/, '')}\``);
      return !isNamed && !isMeant;
    });
    expect(missing).toEqual([]);
  });
});
