import { prefixOf } from '../../src/gateway/prompt-prefix.ts';
import type { Prefix } from '../../src/queue/rpc.ts';
import { Random } from '../../test/support/random.ts';
import { BLOCK_TOKENS, type Sequence } from './model-engine.ts';

/** A request of a load: what the queue is told of its prompt, and what an engine makes of it. */
export interface Asked extends Sequence {
  /** ms after the start */
  at: number;
  prefix: Prefix | null;
}

export const LOADS = ['conversations', 'documents', 'system prompt', 'unique'] as const;
export type Load = (typeof LOADS)[number];

interface Message {
  role: 'system' | 'user' | 'assistant';
  content: string;
}

/** A token of these texts. */
const TOKEN_BYTES = 4;

/**
 * - `conversations`: a system prompt that all share, and turns that bring everything before them
 * - `documents`: questions about long documents, a few of which are asked for much more than others
 * - `system prompt`: one that all share, as long as what follows, which nobody shares
 * - `unique`: nothing is shared
 * @param rate requests a second
 */
export function requestsOf(load: Load, count: number, rate: number, seed: number): Asked[] {
  const random = new Random(seed, load);
  const asked =
    load === 'conversations' ? conversations(random, count, rate) : singles(load, random, count, rate);
  return asked.sort((one, other) => one.at - other.at).slice(0, count);
}

/** Requests of a trace: when they came, and how long prompts and answers were; what prompts share no trace tells. */
export function uniqueRequests(
  trace: readonly { at: number; promptTokens: number; answerTokens: number }[],
  seed: number,
): Asked[] {
  const random = new Random(seed, 'trace');
  return trace.map(({ at, promptTokens, answerTokens }) =>
    request(at, [{ role: 'user', content: text(random, promptTokens) }], text(random, answerTokens)),
  );
}

function singles(load: Load, random: Random, count: number, rate: number): Asked[] {
  const system = text(random, 1500);
  const documents = Array.from({ length: 120 }, () => text(random, random.int(2000, 8000)));
  let at = 0;
  return Array.from({ length: count }, () => {
    at += random.wait(1000 / rate);
    const own = text(random, load === 'documents' ? random.int(20, 100) : random.int(500, 2500));
    const answer = text(random, random.int(50, 250));
    // Of Zipf's kind: the first is asked for far more often than the last.
    const document = documents[Math.floor(documents.length ** random.next()) - 1]!;
    const before = { documents: document, 'system prompt': system }[load as string];
    const messages: Message[] = before === undefined ? [] : [{ role: 'system', content: before }];
    return request(at, [...messages, { role: 'user', content: own }], answer);
  });
}

function conversations(random: Random, count: number, rate: number): Asked[] {
  const system: Message = { role: 'system', content: text(random, 400) };
  const asked: Asked[] = [];
  const meanTurns = 5;
  for (let begins = 0; asked.length < count * 1.2; begins += random.wait((1000 * meanTurns) / rate)) {
    const messages = [system];
    let at = begins;
    for (let turns = random.int(1, 2 * meanTurns - 1); turns > 0; turns--) {
      messages.push({ role: 'user', content: text(random, random.int(20, 400)) });
      const answer = text(random, random.int(50, 400));
      asked.push(request(at, messages, answer));
      messages.push({ role: 'assistant', content: answer });
      at += 10_000 + random.wait(30_000);
    }
  }
  return asked;
}

function request(at: number, messages: readonly Message[], answer: string): Asked {
  const fields = { messages: Buffer.from(JSON.stringify(messages)) };
  const prompt = messages.map(({ role, content }) => `<${role}>`.padEnd(16) + content).join('');
  const blocks = blocksOf(`${prompt}${'<assistant>'.padEnd(16)}${answer}`);
  const promptTokens = Math.ceil(prompt.length / TOKEN_BYTES);
  return {
    at,
    prefix: prefixOf(fields, { tenant: null, model: 'tiny' }) ?? null,
    promptTokens,
    promptBlocks: blocks.slice(0, Math.floor(promptTokens / BLOCK_TOKENS)),
    blocks,
    answerTokens: Math.ceil(answer.length / TOKEN_BYTES),
  };
}

/** Two hashes of 26 bits of all of the text until the end of each block. */
function blocksOf(prompt: string): number[] {
  const blocks: number[] = [];
  const size = BLOCK_TOKENS * TOKEN_BYTES;
  let [one, other] = [0x811c9dc5, 0x9e3779b9];
  for (let at = 0; at < prompt.length; at++) {
    const code = prompt.charCodeAt(at);
    one = Math.imul(one ^ code, 0x01000193);
    other = Math.imul(other ^ code, 0x85ebca6b) ^ (other >>> 13);
    if ((at + 1) % size === 0) blocks.push((one >>> 6) * 2 ** 26 + (other >>> 6));
  }
  return blocks;
}

function text(random: Random, tokens: number): string {
  return Array.from({ length: tokens }, () =>
    random
      .below(36 ** 3)
      .toString(36)
      .padStart(3, '0'),
  ).join(' ');
}
