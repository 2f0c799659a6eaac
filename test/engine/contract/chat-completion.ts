import { describe, expect, it } from 'vitest';
import type { Completion, EngineCalls, Json } from './calls.ts';

export function chatCompletion({ chat }: EngineCalls): void {
  describe('a chat completion', () => {
    it('has every field, the nulls included', async () => {
      const response = await chat({ max_tokens: 3, ignore_eos: true, model: 'tiny' });
      expect(response.status).toBe(200);
      expect(response.headers.get('content-type')).toBe('application/json');
      const body = await response.json();
      expect(body).toEqual({
        id: expect.stringMatching(/^chatcmpl-[0-9a-f]{16}$/),
        object: 'chat.completion',
        created: expect.any(Number),
        model: 'tiny',
        choices: [
          {
            index: 0,
            message: {
              role: 'assistant',
              content: expect.any(String),
              refusal: null,
              annotations: null,
              audio: null,
              function_call: null,
              reasoning: null,
            },
            logprobs: null,
            finish_reason: 'length',
            stop_reason: null,
            token_ids: null,
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
        prompt_logprobs: null,
        prompt_token_ids: null,
        prompt_text: null,
        kv_transfer_params: null,
        ec_transfer_params: null,
        metrics: null,
      });
      const { usage } = body as { usage: { prompt_tokens: number; total_tokens: number } };
      expect(usage.total_tokens).toBe(usage.prompt_tokens + 3);
    });

    it('takes its id from X-Request-Id, before the one in the body', async () => {
      const init = { headers: { 'x-request-id': 'job-42' } };
      const body = (await (await chat({ max_tokens: 1, request_id: 'other' }, init)).json()) as Json;
      expect(body.id).toBe('chatcmpl-job-42');
      const fromBody = (await (await chat({ max_tokens: 1, request_id: 'other' })).json()) as Json;
      expect(fromBody.id).toBe('chatcmpl-other');
    });

    it('answers under its first name, whichever name was asked for', async () => {
      for (const model of ['tiny', 'alias', undefined]) {
        expect(await (await chat({ max_tokens: 1, model })).json()).toMatchObject({ model: 'tiny' });
      }
    });

    it('is the same for the same request and seed', async () => {
      const text = async (seed: number) => {
        const body = (await (await chat({ max_tokens: 20, ignore_eos: true, seed })).json()) as Completion;
        return body.choices[0]!.message!.content;
      };
      expect(await text(7)).toBe(await text(7));
      expect(await text(7)).not.toBe(await text(8));
    });

    it('ignores fields that it does not know', async () => {
      expect((await chat({ max_tokens: 1, guided_choice: ['a'], some_field: { deep: true } })).status).toBe(
        200,
      );
    });

    it('prefers max_completion_tokens, and takes numbers in strings', async () => {
      const asked = { max_tokens: '9', max_completion_tokens: 2, ignore_eos: true };
      expect(await (await chat(asked)).json()).toMatchObject({ usage: { completion_tokens: 2 } });
    });

    it('ends at the model length when more tokens are asked for than fit', async () => {
      // A long prompt leaves little to generate: real vLLM needs half a minute for 2,000 tokens.
      const messages = [{ role: 'user', content: '7'.repeat(1800) }];
      const response = await chat({ messages, max_tokens: 2048, ignore_eos: true });
      const body = (await response.json()) as Completion;
      expect(body.usage.total_tokens).toBe(2048);
      expect(body.choices[0]?.finish_reason).toBe('length');
    });

    it('makes at least min_tokens', async () => {
      const body = (await (await chat({ min_tokens: 200, max_tokens: 250 })).json()) as Completion;
      expect(body.usage.completion_tokens).toBeGreaterThanOrEqual(200);
    });

    it('has as many choices as asked for', async () => {
      const body = (await (await chat({ n: 2, max_tokens: 3, ignore_eos: true })).json()) as Completion;
      expect(body.choices.map(({ index }) => index)).toEqual([0, 1]);
      expect(body.usage.completion_tokens).toBe(6);
    });

    it('stops before the stop string and says which it was, or keeps it where asked to', async () => {
      const asked = { stop: ['e', 'zzz'], max_tokens: 2000, ignore_eos: true, seed: 3 };
      const cut = ((await (await chat(asked)).json()) as Completion).choices[0]!;
      expect(cut).toMatchObject({ finish_reason: 'stop', stop_reason: 'e' });
      expect(cut.message!.content).not.toContain('e');
      const whole = await chat({ ...asked, include_stop_str_in_output: true });
      const kept = ((await whole.json()) as Completion).choices[0]!;
      expect(kept.message!.content).toBe(`${cut.message!.content}e`);
    });
  });
}
