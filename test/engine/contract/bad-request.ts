import { describe, expect, it } from 'vitest';
import { type EngineCalls, type Json, MESSAGES } from './calls.ts';

export function badRequest({ post, chat }: EngineCalls): void {
  describe('a bad request', () => {
    const rejects = async (path: string, body: unknown, status: number, error: Json) => {
      for (const stream of typeof body === 'string' ? [false] : [false, true]) {
        const sent = typeof body === 'string' ? body : { ...(body as Json), ...(stream && { stream }) };
        const response = await post(path, sent);
        expect(response.status, `stream: ${stream}`).toBe(status);
        expect(response.headers.get('content-type')).toBe('application/json');
        expect(await response.json()).toEqual({ error: { ...error, code: status } });
      }
    };
    const badValue = (message: RegExp, param: string | null) => ({
      message: expect.stringMatching(message),
      type: 'BadRequestError',
      param,
    });
    const badForm = (message: RegExp, param: string | null) => ({
      message: expect.stringMatching(message),
      type: 'Bad Request',
      param,
    });

    it('for an unknown model is answered 404, streamed or not', async () => {
      const error = {
        message: expect.stringMatching(/`nosuch` does not exist/),
        type: 'NotFoundError',
        param: 'model',
      };
      await rejects('/v1/chat/completions', { messages: MESSAGES, model: 'nosuch' }, 404, error);
      await rejects('/v1/completions', { prompt: 'x', model: 'nosuch' }, 404, error);
    });

    it('with a value out of range is answered 400 with the field named', async () => {
      const cases: [Json, RegExp, string | null][] = [
        [{ max_tokens: 0 }, /^max_tokens must be at least 1, got 0\./, 'max_tokens'],
        [{ max_tokens: 2049 }, /cannot be greater than max_model_len=2048/, 'max_tokens'],
        [{ temperature: -1 }, /^temperature must be non-negative, got -1\.0/, 'temperature'],
        [{ temperature: 3 }, /^temperature must be in \[0, 2\]/, 'temperature'],
        [{ top_p: 2 }, /^top_p must be in \(0, 1\]/, 'top_p'],
        [{ frequency_penalty: 5 }, /^frequency_penalty must be in \[-2, 2\]/, null],
        [{ n: 0 }, /^n must be at least 1/, null],
        [{ n: 2, temperature: 0 }, /greedy sampling/, null],
        [{ max_tokens: 2, min_tokens: 5 }, /^min_tokens must be less than or equal to max_tokens=2/, null],
        [{ messages: [] }, /empty conversation/, null],
      ];
      for (const [field, message, param] of cases) {
        await rejects(
          '/v1/chat/completions',
          { messages: MESSAGES, ...field },
          400,
          badValue(message, param),
        );
      }
    });

    it('with stream options but no stream is answered 400', async () => {
      const response = await chat({ stream_options: { include_usage: true } });
      expect(response.status).toBe(400);
      expect(await response.json()).toMatchObject({ error: { param: 'stream_options' } });
    });

    it('with a wrong type or a missing field is answered 400 with the place in the body', async () => {
      const at = '/v1/chat/completions';
      const type = badForm(/valid integer/, 'body.max_tokens');
      await rejects(at, { messages: MESSAGES, max_tokens: 'many' }, 400, type);
      await rejects(at, { model: 'tiny' }, 400, badForm(/Field required/, 'body.messages'));
      await rejects(at, { messages: 'hi' }, 400, badForm(/valid list/, 'body.messages'));
      await rejects('/v1/completions', { model: 'tiny' }, 400, badValue(/prompt/, 'prompt'));
    });

    it('that is no JSON, no object or not said to be JSON is answered 400', async () => {
      const at = '/v1/chat/completions';
      await rejects(at, '{nope', 400, badForm(/JSON decode error/, 'body.1'));
      await rejects(at, '[1]', 400, badForm(/valid dictionary/, 'body'));
      const response = await chat({}, { headers: { 'content-type': 'text/plain' } });
      expect(response.status).toBe(400);
      expect(await response.json()).toMatchObject({ error: { type: 'Bad Request', param: null } });
    });

    it('with a prompt longer than the model is answered 400, the limit named', async () => {
      const error = {
        message: expect.stringMatching(/maximum context length is 2048 tokens/),
        type: 'BadRequestError',
        param: expect.stringMatching(/^input_/),
      };
      const content = 'word '.repeat(6000);
      await rejects('/v1/chat/completions', { messages: [{ role: 'user', content }] }, 400, error);
    });
  });
}
