import OpenAI from 'openai';
import { beforeAll, describe, expect, it } from 'vitest';
import { until } from './poll.ts';

/**
 * Tests of OpenAI's client for Node, unmodified, over the responses and conversations of a queue.
 * @param status with which an answer ends; `incomplete`: each is as short as its limit
 */
export function clientForNode(url: () => string, status: 'completed' | 'incomplete'): void {
  describe('OpenAI’s client for Node uses responses', () => {
    // A model of random weights may end its answer at any token.
    const limited = { max_output_tokens: 20, ignore_eos: true };
    const usual = { model: 'tiny', ...(status === 'incomplete' && limited) };
    let client: OpenAI;

    beforeAll(() => {
      client = new OpenAI({ baseURL: `${url()}/v1`, apiKey: 'none', maxRetries: 0 });
    });

    const ended = async (id: string) =>
      await until(async () => {
        const response = await client.responses.retrieve(id);
        return /queued|in_progress/.test(response.status!) ? null : response;
      }, 'the response to end');

    it('goes on from a response, reads its input and deletes it', async () => {
      const first = await client.responses.create({ ...usual, input: 'One.' });
      const second = await client.responses.create({
        ...usual,
        input: 'Two.',
        previous_response_id: first.id,
      });
      expect((await client.responses.retrieve(second.id)).output_text).toBe(second.output_text);
      const counted = await client.responses.inputTokens.count({ model: usual.model, input: 'One.' });
      expect(counted.input_tokens).toBe(first.usage?.input_tokens);
      const roles: string[] = [];
      for await (const item of client.responses.inputItems.list(second.id, { order: 'asc', limit: 1 }))
        if (item.type === 'message') roles.push(item.role);
      expect(roles).toEqual(['user', 'assistant', 'user']);
      await client.responses.delete(first.id);
      await expect(client.responses.retrieve(first.id)).rejects.toMatchObject({ status: 404 });
    });

    it('takes the stream of a response in the background up again where it left it', async () => {
      const asked = { ...usual, input: 'Say hello.', temperature: 0 };
      const whole = await client.responses.create(asked);
      const seen: OpenAI.Responses.ResponseStreamEvent[] = [];
      const left = client.responses.stream({ ...asked, background: true });
      for await (const event of left) if (seen.push(event) > 10) break;
      const { id } = (seen[0] as OpenAI.Responses.ResponseCreatedEvent).response;
      const again = client.responses.stream({ response_id: id, starting_after: 10 });
      for await (const event of again) seen.push(event);
      expect(seen.map((event) => event.sequence_number)).toEqual(seen.map((_, number) => number));
      const said = seen.map((event) => (event.type === 'response.output_text.delta' ? event.delta : ''));
      expect(said.join('')).toBe(whole.output_text);
      expect((await again.finalResponse()).output_text).toBe(whole.output_text);
    });

    it('polls a response in the background, and cancels one', async () => {
      const { id } = await client.responses.create({ ...usual, input: 'Say hello.', background: true });
      expect(await ended(id)).toMatchObject({ status, background: true });
      const long = { model: usual.model, input: 'Say much.', background: true, ignore_eos: true } as const;
      const running = await client.responses.create(long);
      expect(await client.responses.cancel(running.id)).toMatchObject({ status: 'cancelled' });
      expect((await client.responses.retrieve(running.id)).status).toBe('cancelled');
    });

    it('holds a conversation', async () => {
      const talk = await client.conversations.create({ items: [{ role: 'user', content: 'I am Ada.' }] });
      await client.responses.create({ ...usual, input: 'Who am I?', conversation: talk.id });
      await client.responses
        .stream({ ...usual, input: 'Sure?', conversation: { id: talk.id } })
        .finalResponse();
      const items: unknown[] = [];
      for await (const item of client.conversations.items.list(talk.id, { limit: 2 })) items.push(item);
      expect(items).toHaveLength(5);
      expect(await client.conversations.delete(talk.id)).toMatchObject({ deleted: true });
    });
  });
}
