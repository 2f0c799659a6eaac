import { describe, expect, it } from 'vitest';
import { type Completion, type EngineCalls, readEvents } from './calls.ts';

export function textCompletion({ post }: EngineCalls): void {
  describe('a text completion', () => {
    it('has every field, the nulls included', async () => {
      const init = { headers: { 'x-request-id': 'job-7' } };
      const response = await post(
        '/v1/completions',
        { prompt: 'hello', max_tokens: 3, ignore_eos: true },
        init,
      );
      expect(await response.json()).toEqual({
        id: 'cmpl-job-7',
        object: 'text_completion',
        created: expect.any(Number),
        model: 'tiny',
        choices: [
          {
            index: 0,
            text: expect.any(String),
            logprobs: null,
            finish_reason: 'length',
            stop_reason: null,
            token_ids: null,
            prompt_logprobs: null,
            prompt_token_ids: null,
            routed_experts: null,
          },
        ],
        service_tier: null,
        system_fingerprint: expect.stringMatching(/^vllm-/),
        usage: {
          prompt_tokens: expect.any(Number),
          total_tokens: expect.any(Number),
          completion_tokens: 3,
          prompt_tokens_details: null,
          completion_tokens_details: null,
        },
        kv_transfer_params: null,
        ec_transfer_params: null,
        metrics: null,
      });
    });

    it('makes 16 tokens when no number is given', async () => {
      const response = await post('/v1/completions', { prompt: 'hello', ignore_eos: true });
      expect(await response.json()).toMatchObject({ usage: { completion_tokens: 16 } });
    });

    it('streams texts without an opening', async () => {
      const body = { prompt: 'hello', max_tokens: 3, ignore_eos: true, stream: true };
      const usage = { stream_options: { include_usage: true } };
      const { events, done } = await readEvents(await post('/v1/completions', { ...body, ...usage }));
      expect(events[0]).toEqual({
        id: expect.stringMatching(/^cmpl-/),
        object: 'text_completion',
        created: expect.any(Number),
        model: 'tiny',
        choices: [
          {
            index: 0,
            text: expect.any(String),
            logprobs: null,
            finish_reason: null,
            stop_reason: null,
            prompt_token_ids: null,
            token_ids: null,
          },
        ],
      });
      expect(events.at(-2)!.choices).toMatchObject([{ finish_reason: 'length', stop_reason: null }]);
      expect(events.at(-1)).toMatchObject({ choices: [], usage: { completion_tokens: 3 } });
      expect(done).toBe(true);
    });

    it('takes several prompts, and token ids', async () => {
      const two = await post('/v1/completions', {
        prompt: ['hello', 'there'],
        max_tokens: 2,
        ignore_eos: true,
      });
      const body = (await two.json()) as Completion;
      expect(body.choices.map(({ index }) => index)).toEqual([0, 1]);
      expect(body.usage.completion_tokens).toBe(4);
      const ids = await post('/v1/completions', { prompt: [5, 6, 7], max_tokens: 2 });
      expect(await ids.json()).toMatchObject({ usage: { prompt_tokens: 3 } });
    });

    it('repeats the prompt where echo asks for it', async () => {
      const response = await post('/v1/completions', { prompt: 'hello', max_tokens: 2, echo: true });
      const body = (await response.json()) as Completion;
      expect(body.choices[0]?.text).toMatch(/^hello./s);
    });
  });
}
