import { describe, expect, it } from 'vitest';
import { movePlan } from '../../../src/moving/plan.ts';
import type { MovePlan } from '../../../src/protocol/index.ts';
import { Events } from '../../../src/worker/answers/events.ts';
import { StopHold } from '../../../src/worker/answers/stop-hold.ts';
import type { EngineCalls, Json } from './calls.ts';
import { MESSAGES, readEvents } from './calls.ts';

const TOKENS = 24;
/** The penalty counts the prompt too, and makes a text that repeats nothing. */
const SAMPLINGS: readonly (Json & { min_tokens?: number })[] = [
  {},
  { repetition_penalty: 1.3 },
  { logprobs: true, repetition_penalty: 1.3 },
  { min_tokens: 12, ignore_eos: false, repetition_penalty: 1.3 },
  { logit_bias: { 40: 2, 41: -2 }, repetition_penalty: 1.2 },
  { top_k: 5, top_p: 0.9, min_p: 0.05, repetition_penalty: 1.2 },
];

/** Nothing in it is random. */
const GREEDY = { temperature: 0, ignore_eos: true, stream: true, return_token_ids: true };

const SAMPLED = { temperature: 0, ignore_eos: true };

/** What a move of an answer to another worker relies on (docs/moving.md). */
export function continuation({ post }: EngineCalls): void {
  const chat = async (body: Json) =>
    read(await post('/v1/chat/completions', { messages: MESSAGES, ...GREEDY, ...body }));
  const tokens = async (token_ids: number[], sampling_params: Json) => {
    const asked = { token_ids, sampling_params: { ...SAMPLED, ...sampling_params }, stream: true };
    return read(await post('/inference/v1/generate', { ...asked, stream_options: { include_usage: true } }));
  };
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
      for (const [index, sampling] of SAMPLINGS.entries()) {
        const whole = await chat({ max_tokens: TOKENS, ...sampling });
        // Behind every event, then behind some of them.
        for (const cut of whole.cuts.filter((_, at) => index < 2 || at % 8 === 0)) {
          const kept = await wholeCharacters(whole.ids.slice(0, cut.tokens));
          const ids = [...whole.prompt, ...kept];
          const rest = await chat({
            messages: [{ role: 'user', content: '.' }],
            kv_transfer_params: { prompt_token_ids: ids },
            ...sampling,
            max_tokens: TOKENS - kept.length,
            min_tokens: Math.max(0, (sampling.min_tokens ?? 0) - kept.length),
          });
          expect(rest.prompt).toEqual(ids);
          expect([cut.text + rest.text, rest.ids]).toEqual([whole.text, whole.ids.slice(kept.length)]);
          expect(close(rest.logprobs, whole.logprobs.slice(kept.length))).toBe(true);
        }
      }
    });

    it('ends at its stop string, also where that would have begun before the cut', async () => {
      const { text: plain } = await chat({ max_tokens: TOKENS, repetition_penalty: 1.3 });
      const stop = stopIn(plain);
      const asked = { max_tokens: TOKENS, repetition_penalty: 1.3, stop };
      const wanted = await chat(asked);
      expect(wanted.text).toBe(plain.slice(0, plain.indexOf(stop)));
      const shown = { ...asked, include_stop_str_in_output: true };
      const whole = await chat(shown);
      const cuts = cutsOf(whole.events, stop);
      expect(cuts.at(-1)!.text).toBe(wanted.text);
      for (const cut of cuts.slice(0, -1)) {
        const ids = [...whole.prompt, ...(await wholeCharacters(whole.ids.slice(0, cut.tokens)))];
        const more = { kv_transfer_params: { prompt_token_ids: ids } };
        const left = TOKENS - (ids.length - whole.prompt.length);
        const rest = await chat({ ...shown, messages: MESSAGES, ...more, max_tokens: left });
        expect(cut.text + cutsOf(rest.events, stop).at(-1)!.text).toBe(wanted.text);
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

    it('goes on as tokens alone, of which none is held back', async () => {
      const prompt = [40, 41, 42, 43];
      const sampling = { repetition_penalty: 1.3, logprobs: 1, min_tokens: 12 };
      const whole = await tokens(prompt, { ...sampling, max_tokens: TOKENS });
      expect(whole.ids).toHaveLength(TOKENS);
      const identity = whole.events.map(({ request_id, output_mode }) => ({ request_id, output_mode }));
      expect(new Set(identity.map((one) => JSON.stringify(one))).size).toBe(1);
      const spans = Object((whole.events.at(-2)!.choices as unknown[])[0]).weight_versions;
      expect(spans).toMatchObject([{ start: 0, end: TOKENS }]);
      expect(whole.events.at(-1)).toMatchObject({ choices: [], usage: { completion_tokens: TOKENS } });
      // The last is behind all tokens.
      for (const { tokens: at } of whole.cuts.slice(0, -1)) {
        const left = { max_tokens: TOKENS - at, min_tokens: Math.max(0, 12 - at) };
        const rest = await tokens([...prompt, ...whole.ids.slice(0, at)], { ...sampling, ...left });
        expect(rest.ids).toEqual(whole.ids.slice(at));
        expect(close(rest.logprobs, whole.logprobs.slice(at))).toBe(true);
      }
    });
  });
}

/** Of three characters, in the middle of a text. */
function stopIn(text: string): string {
  for (let at = text.length >> 1; at < text.length - 3; at++) {
    const stop = text.slice(at, at + 3);
    if (text.indexOf(stop) === at && !stop.includes('\ufffd')) return stop;
  }
  throw new Error(`nothing stands once in ${text}`);
}

/** Where an answer can be cut that has a stop string, and the text until there; the last is all of it. */
function cutsOf(events: readonly Json[], stop: string): { tokens: number; text: string }[] {
  const plan = movePlan('/v1/chat/completions', JSON.stringify({ messages: MESSAGES, stream: true, stop }));
  const hold = StopHold.of(plan as MovePlan)!;
  const cuts: { tokens: number; text: string }[] = [];
  let [tokens, text] = [0, ''];
  for (const event of events) {
    const released = hold.push(Events.ofBytes(Buffer.from(`data: ${JSON.stringify(event)}\n\n`)));
    for (const [, json = ''] of Buffer.from(released?.bytes ?? [])
      .toString()
      .matchAll(/^data: (.*)$/gm)) {
      const [choice] = (JSON.parse(json) as { choices: Choice[] }).choices;
      tokens += choice?.token_ids?.length ?? 0;
      text += choice?.delta?.content ?? '';
    }
    if (released !== null && tokens > 0) cuts.push({ tokens, text });
  }
  return cuts;
}

/** The same but for what sums in another order differ by. */
function close(one: readonly number[], other: readonly number[]): boolean {
  return one.length === other.length && one.every((value, at) => Math.abs(value - other[at]!) < 1e-3);
}

interface Choice {
  delta?: { content?: string };
  text?: string;
  token_ids?: number[] | null;
  logprobs?: { content?: { logprob: number }[] } | null;
  prompt_token_ids?: number[] | null;
}

interface Said {
  events: Json[];
  prompt: number[];
  ids: number[];
  text: string;
  logprobs: number[];
  /** Where it can be cut: what came before. An event may bring several tokens. */
  cuts: { tokens: number; text: string }[];
}

async function read(response: Response): Promise<Said> {
  const { events } = await readEvents(response);
  const said: Said = { events, prompt: [], ids: [], text: '', logprobs: [], cuts: [] };
  for (const event of events) {
    const [choice] = event.choices as Choice[];
    said.prompt.push(...((event.prompt_token_ids ?? choice?.prompt_token_ids ?? []) as number[]));
    if (said.ids.length > 0) said.cuts.push({ tokens: said.ids.length, text: said.text });
    said.ids.push(...(choice?.token_ids ?? []));
    said.text += choice?.delta?.content ?? choice?.text ?? '';
    said.logprobs.push(...(choice?.logprobs?.content?.map(({ logprob }) => logprob) ?? []));
  }
  return said;
}
