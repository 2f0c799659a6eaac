import { Random } from '../support/random.ts';
import { continuableAnswer, type GenerationBody } from './continuable-answer.ts';
import { drawStop } from './prompt-plan.ts';

/** What a stored job asks for whose answer may go on at another worker. */
export interface StoredPrompt {
  content: string;
  maxTokens: number;
  stop: string | null;
}

export function drawStoredPrompt(seed: number, index: number): StoredPrompt {
  const random = new Random(seed, `stored prompt ${index}`);
  return {
    content: `job ${index}`,
    maxTokens: random.int(1, 40),
    stop: random.chance(0.3) ? drawStop(random) : null,
  };
}

export function storedChat({ content, maxTokens, stop }: StoredPrompt): GenerationBody {
  const messages = [{ role: 'user', content }];
  return { messages, max_tokens: maxTokens, ...(stop !== null && { stop }) };
}

/** What is wrong with a result; null: it is what an engine says that nothing disturbs, wherever its parts were made. */
export function wrongResult(prompt: StoredPrompt, result: string): string | null {
  const ending = { hasEndMark: true, gaveUpAt: null };
  const { text, tokens } = continuableAnswer('', 0, storedChat(prompt), ending);
  const { completion, response } = JSON.parse(result) as {
    completion?: Completion;
    response?: { body: Completion };
  };
  const { choices, usage } = (completion ?? response?.body)!;
  const said = JSON.stringify([choices[0]?.message.content, usage.completion_tokens]);
  const wanted = JSON.stringify([text, tokens]);
  return said === wanted ? null : `it says ${said}, and not ${wanted}`;
}

interface Completion {
  choices: { message: { content: string } }[];
  usage: { completion_tokens: number };
}
