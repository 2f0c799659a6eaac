import { Random } from '../support/random.ts';
import { continuableAnswer, type GenerationBody } from './continuable-answer.ts';
import { drawStop } from './prompt-plan.ts';

/** What a stored job asks for whose answer may go on at another worker. */
export interface StoredPrompt {
  content: string;
  maxTokens: number;
  stop: string | null;
  /** The model thinks first. */
  thinks: boolean;
}

export function drawStoredPrompt(seed: number, index: number): StoredPrompt {
  const random = new Random(seed, `stored prompt ${index}`);
  const [maxTokens, stop] = [random.int(1, 40), random.chance(0.3) ? drawStop(random) : null];
  const thinks = stop === null && new Random(seed, `stored reasoning ${index}`).chance(0.4);
  return { content: `job ${index}`, maxTokens, stop, thinks };
}

export function storedChat({ content, maxTokens, stop, thinks }: StoredPrompt): GenerationBody {
  const messages = [{ role: 'user', content }];
  const thinking = thinks && { include_reasoning: true };
  return { messages, max_tokens: maxTokens, ...(stop !== null && { stop }), ...thinking };
}

/** What is wrong with a result; null: it is what an engine says that nothing disturbs, wherever its parts were made. */
export function wrongResult(prompt: StoredPrompt, result: string): string | null {
  const ending = { isFinished: true, gaveUpAt: null };
  const { text, reasoning, tokens } = continuableAnswer('', 0, storedChat(prompt), ending, 0);
  const { completion, response } = JSON.parse(result) as {
    completion?: Completion;
    response?: { body: Completion };
  };
  const { choices, usage } = (completion ?? response?.body)!;
  const { content, reasoning: thought } = choices[0]!.message;
  const said = JSON.stringify([thought ?? '', content ?? '', usage.completion_tokens]);
  const wanted = JSON.stringify([reasoning, text, tokens]);
  return said === wanted ? null : `it says ${said}, and not ${wanted}`;
}

interface Completion {
  choices: { message: { content: string | null; reasoning?: string | null } }[];
  usage: { completion_tokens: number };
}
