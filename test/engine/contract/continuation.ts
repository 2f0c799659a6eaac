import { describe, expect, it } from 'vitest';
import type { EngineCalls, Json } from './calls.ts';
import { MESSAGES, readEvents } from './calls.ts';

const TOKENS = 24;
/** Nothing in it is random. */
const GREEDY = { temperature: 0, ignore_eos: true, stream: true, return_token_ids: true };

/** What a move of an answer to another worker relies on (docs/moving.md). */
export function continuation({ post }: EngineCalls): void {
  const chat = async (body: Json) =>
    read(await post('/v1/chat/completions', { messages: MESSAGES, ...GREEDY, ...body }));
  const text = async (body: Json) => read(await post('/v1/completions', { ...GREEDY, ...body }));

  /** Without the tokens at the end that make no whole character yet: nothing of their text has been told. */
  const wholeCharacters = async (ids: number[]): Promise<number[]> => {
    const { prompt } = (await (await post('/detokenize', { tokens: ids })).json()) as { prompt: string };
    return prompt.endsWith('\ufffd') ? wholeCharacters(ids.slice(0, -1)) : ids;
  };

  describe('an answer that is cut', () => {
    it('tells the ids of its prompt once, and those of each token', async () => {
      for (const whole of [
        await chat({ max_tokens: TOKENS }),
        await text({ prompt: 'hello', max_tokens: TOKENS }),
      ]) {
        expect(whole.prompt.length).toBeGreaterThan(0);
        expect(whole.ids).toHaveLength(TOKENS);
      }
    });

    it('goes on from its ids as a chat as if it had never been cut', async () => {
      // The penalty counts the prompt too, and makes a text that repeats nothing.
      for (const sampling of [{}, { repetition_penalty: 1.3 }]) {
        const whole = await chat({ max_tokens: TOKENS, ...sampling });
        for (const cut of whole.cuts) {
          const kept = await wholeCharacters(whole.ids.slice(0, cut.tokens));
          const ids = [...whole.prompt, ...kept];
          const rest = await chat({
            messages: [{ role: 'user', content: '.' }],
            kv_transfer_params: { prompt_token_ids: ids },
            max_tokens: TOKENS - kept.length,
            ...sampling,
          });
          expect(rest.prompt).toEqual(ids);
          expect([cut.text + rest.text, rest.ids]).toEqual([whole.text, whole.ids.slice(kept.length)]);
        }
      }
    });

    it('goes on as a text completion too', async () => {
      const whole = await text({ prompt: 'hello there', max_tokens: TOKENS, repetition_penalty: 1.3 });
      for (const cut of whole.cuts) {
        const kept = await wholeCharacters(whole.ids.slice(0, cut.tokens));
        const prompt = [...whole.prompt, ...kept];
        const rest = await text({ prompt, max_tokens: TOKENS - kept.length, repetition_penalty: 1.3 });
        expect([cut.text + rest.text, rest.ids]).toEqual([whole.text, whole.ids.slice(kept.length)]);
      }
    });
  });
}

interface Said {
  prompt: number[];
  ids: number[];
  text: string;
  /** Where it can be cut: what came before. An event may bring several tokens. */
  cuts: { tokens: number; text: string }[];
}

async function read(response: Response): Promise<Said> {
  const { events } = await readEvents(response);
  const said: Said = { prompt: [], ids: [], text: '', cuts: [] };
  for (const event of events) {
    const [choice] = event.choices as (Json & { delta?: { content?: string } })[];
    said.prompt.push(...((event.prompt_token_ids ?? choice?.prompt_token_ids ?? []) as number[]));
    if (said.ids.length > 0) said.cuts.push({ tokens: said.ids.length, text: said.text });
    said.ids.push(...((choice?.token_ids ?? []) as number[]));
    said.text += choice?.delta?.content ?? choice?.text ?? '';
  }
  return said;
}
