import { describe, expect, it } from 'vitest';
import { type ChunkChoice, type Completion, type EngineCalls, type Json, textOf } from './calls.ts';

export function streamedChatCompletion({ chat, chatStream, idle }: EngineCalls): void {
  describe('a streamed chat completion', () => {
    it('opens with the role, carries the finish on its last text, and ends with [DONE]', async () => {
      const { response, events, done } = await chatStream({ max_tokens: 3 });
      expect(response.headers.get('content-type')).toBe('text/event-stream; charset=utf-8');
      expect(response.headers.get('transfer-encoding')).toBe('chunked');
      expect(done).toBe(true);
      const head = {
        id: expect.stringMatching(/^chatcmpl-/),
        object: 'chat.completion.chunk',
        created: expect.any(Number),
        model: 'tiny',
      };
      expect(events[0]).toEqual({
        ...head,
        choices: [
          { index: 0, delta: { role: 'assistant', content: '' }, logprobs: null, finish_reason: null },
        ],
        prompt_token_ids: null,
        prompt_text: null,
      });
      expect(events[1]).toEqual({
        ...head,
        choices: [
          {
            index: 0,
            delta: { content: expect.any(String) },
            logprobs: null,
            finish_reason: null,
            token_ids: null,
          },
        ],
      });
      expect(events.at(-1)).toEqual({
        ...head,
        choices: [
          {
            index: 0,
            delta: { content: expect.any(String) },
            logprobs: null,
            finish_reason: 'length',
            stop_reason: null,
            token_ids: null,
          },
        ],
        system_fingerprint: expect.stringMatching(/^vllm-/),
      });
      expect(new Set(events.map(({ id }) => id)).size).toBe(1);
    });

    it('adds an event with the usage and no choices where include_usage asks for it', async () => {
      const { events, done } = await chatStream({ max_tokens: 3, stream_options: { include_usage: true } });
      const last = events.at(-1)!;
      const prompt = (last.usage as Json).prompt_tokens as number;
      expect(last.choices).toEqual([]);
      expect(last.usage).toEqual({ prompt_tokens: prompt, total_tokens: prompt + 3, completion_tokens: 3 });
      expect(last.system_fingerprint).toMatch(/^vllm-/);
      expect(events.at(-2)).not.toHaveProperty('system_fingerprint');
      expect(events.slice(0, -1).every((event) => !('usage' in event))).toBe(true);
      expect(done).toBe(true);
    });

    it('counts along where continuous_usage_stats asks for it', async () => {
      const options = { include_usage: true, continuous_usage_stats: true };
      const { events } = await chatStream({ max_tokens: 4, stream_options: options });
      const counts = events.map(({ usage }) => (usage as Json).completion_tokens as number);
      expect(counts[0]).toBe(0);
      expect(counts).toEqual(counts.toSorted((one, other) => one - other));
      expect(counts.at(-1)).toBe(4);
    });

    it('says the same as the answer in one piece', async () => {
      const asked = { max_tokens: 60, ignore_eos: true, seed: 11 };
      const whole = (await (await chat(asked)).json()) as Completion;
      const { events } = await chatStream(asked);
      expect(textOf(events, 0)).toBe(whole.choices[0]!.message!.content);
    });

    it('opens each choice and ends each with its own finish', async () => {
      const { events } = await chatStream({ n: 2, max_tokens: 3, stream_options: { include_usage: true } });
      const choices = events.flatMap((event) => event.choices as ChunkChoice[]);
      expect(choices.filter(({ delta }) => delta?.role === 'assistant').map(({ index }) => index)).toEqual([
        0, 1,
      ]);
      const finished = choices.filter(({ finish_reason }) => finish_reason !== null);
      expect(finished.map(({ index }) => index).toSorted()).toEqual([0, 1]);
      expect((events.at(-1)!.usage as Json).completion_tokens).toBe(6);
    });

    it('never lets a part of the stop string out', async () => {
      const asked = { max_tokens: 100, seed: 5 };
      const unstopped = textOf((await chatStream(asked)).events, 0);
      const stop = unstopped.slice(12, 15);
      const { events } = await chatStream({ ...asked, stop });
      expect(textOf(events, 0)).toBe(unstopped.slice(0, unstopped.indexOf(stop)));
      const last = (events.at(-1)!.choices as ChunkChoice[])[0]!;
      expect(last).toMatchObject({ finish_reason: 'stop', stop_reason: stop });
    });

    it('is errorless under many readers at once', async () => {
      await idle();
      const streams = await Promise.all([1, 2, 3, 4].map((seed) => chatStream({ max_tokens: 100, seed })));
      for (const { events, done } of streams) {
        expect(done).toBe(true);
        expect((events.at(-1)!.choices as ChunkChoice[])[0]!.finish_reason).toBe('length');
      }
    });
  });
}
