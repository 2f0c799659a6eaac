import { describe, expect, it } from 'vitest';
import { until } from '../../support/poll.ts';
import { type EngineCalls, type Json, sumOf } from './calls.ts';

export function besideTheAnswers({ get, chat, url }: EngineCalls): void {
  describe('beside the answers', () => {
    it('says that it is healthy with an empty 200', async () => {
      const response = await get('/health');
      expect(response.status).toBe(200);
      expect(await response.text()).toBe('');
    });

    it('lists its names and the length they take', async () => {
      const list = (await (await get('/v1/models')).json()) as { object: string; data: Json[] };
      expect(list.object).toBe('list');
      expect(list.data.map(({ id }) => id)).toEqual(['tiny', 'alias']);
      expect(list.data[0]).toMatchObject({
        object: 'model',
        owned_by: 'vllm',
        parent: null,
        max_model_len: 2048,
      });
      expect(typeof list.data[0]?.root).toBe('string');
    });

    it('tells its version and its load', async () => {
      expect(await (await get('/version')).json()).toEqual({ version: expect.any(String) });
      expect(await (await get('/load')).json()).toEqual({ server_load: 0 });
    });

    it.each([
      ['GET', '/v1/nothing', 404, { detail: 'Not Found' }],
      ['GET', '/v1/chat/completions', 405, { detail: 'Method Not Allowed' }],
    ])('answers %s %s with %i', async (method, path, status, body) => {
      const response = await fetch(url() + path, { method });
      expect(response.status).toBe(status);
      expect(await response.json()).toEqual(body);
    });

    it('keeps the counters and histograms that the road and its dashboards read', async () => {
      const before = await (await get('/metrics')).text();
      const answer = (await (await chat({ max_tokens: 7, ignore_eos: true })).json()) as { usage: Json };
      const prompt = answer.usage.prompt_tokens as number;
      const growth = async (name: string, only = '') =>
        sumOf(await (await get('/metrics')).text(), name, only) - sumOf(before, name, only);

      await until(async () => (await growth('generation_tokens_total')) === 7, 'seven tokens are counted');
      await until(async () => (await growth('request_success_total')) === 1, 'the request is counted');
      expect(await growth('prompt_tokens_total')).toBe(prompt);
      expect(await growth('request_success_total', 'finished_reason="length"')).toBe(1);
      expect(await growth('time_to_first_token_seconds_count')).toBe(1);
      expect(await growth('inter_token_latency_seconds_count')).toBe(6);
      expect(await growth('e2e_request_latency_seconds_count')).toBe(1);
      expect(await growth('request_queue_time_seconds_count')).toBe(1);
      expect(await growth('iteration_tokens_total_count')).toBeGreaterThan(0);
      for (const name of ['kv_cache_usage_perc', 'num_preemptions_total', 'prefix_cache_hits_total']) {
        expect(before).toContain(`vllm:${name}{`);
      }
      expect(before).toMatch(/vllm:e2e_request_latency_seconds_bucket\{[^}]*le="\+Inf"/);
    });
  });
}
