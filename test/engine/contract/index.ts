import { afterAll, beforeAll } from 'vitest';
import { assembled } from './assembled.ts';
import { badRequest } from './bad-request.ts';
import { besideTheAnswers } from './beside-the-answers.ts';
import { engineCalls } from './calls.ts';
import { chatCompletion } from './chat-completion.ts';
import { continuation } from './continuation.ts';
import { streamedChatCompletion } from './streamed-chat-completion.ts';
import { textCompletion } from './text-completion.ts';
import { underLoad } from './under-load.ts';

/** An engine to be held against the contract: serves `tiny` and `alias`, 2,048 tokens, 2 at a time. */
export interface ContractEngine {
  url: string;
  stop(): Promise<void>;
}

/** Arguments of `vllm serve`, and of the simulator, that make such an engine. */
export const CONTRACT_ARGS = [
  ...['--served-model-name', 'tiny', 'alias', '--max-model-len', '2048'],
  ...['--max-num-seqs', '2', '--max-num-queued-reqs', '4', '--enable-scale-out'],
];

/**
 * What the road relies on in an engine, run over the simulator and over real vLLM alike,
 * so that the one cannot drift from the other.
 */
export function engineContract(start: () => Promise<ContractEngine>): void {
  let engine: ContractEngine;

  beforeAll(async () => {
    engine = await start();
  });
  afterAll(async () => {
    await engine?.stop();
  });

  const calls = engineCalls(() => engine.url);
  besideTheAnswers(calls);
  chatCompletion(calls);
  streamedChatCompletion(calls);
  textCompletion(calls);
  badRequest(calls);
  continuation(calls);
  assembled(calls);
  underLoad(calls);
}
