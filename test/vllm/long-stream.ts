import OpenAI from 'openai';
import { until } from '../support/poll.ts';

/** The choices of a long request keep the tiny model busy for seconds; vLLM counts each as a request that runs. */
export const LONG_CHOICES = 15;
export const LONG = {
  model: 'tiny',
  messages: [{ role: 'user' as const, content: 'Say hello.' }],
  n: LONG_CHOICES,
  max_tokens: 1900,
  ignore_eos: true,
};

/** A stream that has begun; `ended` tells how: the error, or null where `finishes` has what was given. */
export async function openLongStream(queueUrl: string) {
  const client = new OpenAI({ baseURL: `${queueUrl}/v1`, apiKey: 'none', maxRetries: 0 });
  const stream = await client.chat.completions.create({ ...LONG, stream: true });
  let events = 0;
  const finishes: string[] = [];
  const ended = (async () => {
    try {
      for await (const chunk of stream) {
        events += 1;
        const reason = chunk.choices[0]?.finish_reason;
        if (reason) finishes.push(reason);
      }
      return null;
    } catch (error) {
      return error as Error;
    }
  })();
  await until(() => events > 20, 'the stream runs');
  return { ended, finishes };
}
