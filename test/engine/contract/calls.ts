import { expect } from 'vitest';
import { until } from '../../support/poll.ts';

export type Json = Record<string, unknown>;

export const MESSAGES = [{ role: 'user', content: 'hello there' }];
/** A request that runs for as long as the engine lets it. */
export const LONG = { messages: MESSAGES, ignore_eos: true, max_tokens: 2000, stream: true };

export type EngineCalls = ReturnType<typeof engineCalls>;

/**
 * What every part of the contract asks an engine.
 * @param url the engine's address, once it has started
 */
export function engineCalls(url: () => string) {
  const get = (path: string) => fetch(url() + path);
  const post = (path: string, body: unknown, init: RequestInit = {}) =>
    fetch(url() + path, {
      method: 'POST',
      body: typeof body === 'string' ? body : JSON.stringify(body),
      ...init,
      headers: { 'content-type': 'application/json', ...init.headers },
    });
  const chat = (body: Json, init?: RequestInit) =>
    post('/v1/chat/completions', { messages: MESSAGES, ...body }, init);
  const chatStream = async (body: Json, init?: RequestInit) =>
    readEvents(await chat({ stream: true, ignore_eos: true, ...body }, init));
  const gauge = async (name: string) => sumOf(await (await get('/metrics')).text(), name);
  const idle = () =>
    until(
      async () => (await gauge('num_requests_running')) === 0 && (await gauge('num_requests_waiting')) === 0,
      'the engine is idle',
    );
  return { url, get, post, chat, chatStream, gauge, idle };
}

export interface Completion {
  choices: {
    index: number;
    text?: string;
    message?: { content: string };
    finish_reason: string | null;
    stop_reason: string | null;
  }[];
  usage: { prompt_tokens: number; total_tokens: number; completion_tokens: number };
}

export interface ChunkChoice {
  index: number;
  delta?: { role?: string; content?: string };
  finish_reason: string | null;
  stop_reason?: string | null;
}

/** Reads a stream to its end; every event must be one `data: ` line and a blank one. */
export async function readEvents(
  response: Response,
): Promise<{ response: Response; events: Json[]; done: boolean }> {
  const events: Json[] = [];
  let done = false;
  for (const event of (await response.text()).split('\n\n').slice(0, -1)) {
    expect(event).toMatch(/^data: [^\n]+$/);
    expect(done).toBe(false);
    const data = event.slice('data: '.length);
    if (data === '[DONE]') done = true;
    else events.push(JSON.parse(data) as Json);
  }
  return { response, events, done };
}

export function textOf(events: Json[], index: number): string {
  return events
    .flatMap((event) => event.choices as ChunkChoice[])
    .filter((choice) => choice.index === index)
    .map(({ delta }) => delta?.content ?? '')
    .join('');
}

/** The sum of a metric over its label sets, or over those that contain `only`. */
export function sumOf(page: string, name: string, only = ''): number {
  const lines = page.split('\n').filter((line) => line.startsWith(`vllm:${name}{`) && line.includes(only));
  if (lines.length === 0) throw new Error(`no metric vllm:${name}`);
  return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' '))), 0);
}
