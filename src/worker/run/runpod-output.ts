import { engineJson, eventData, keepJson } from '../../protocol/index.ts';
import { BatchCounter } from './runpod-batching.ts';
import type { RunpodCall } from './runpod-input.ts';

type Fields = Record<string, unknown>;

interface Choice extends Fields {
  index?: number;
  text?: unknown;
  message?: { content?: unknown };
  delta?: Fields;
}

interface Usage {
  input: number;
  output: number;
}

/** Returns the output of a job whose answer came in one piece. */
export function wholeOutput(form: RunpodCall['form'], body: unknown): unknown {
  if (form !== 'tokens') return body;
  const { choices, usage } = Object(body) as { choices?: Choice[]; usage?: Fields };
  const sorted = [...(choices ?? [])].sort((a, b) => (a.index ?? 0) - (b.index ?? 0));
  return {
    choices: sorted.map(({ text, message }) => ({ tokens: [String(text ?? message?.content ?? '')] })),
    usage: usageOf(usage) ?? { input: 0, output: 0 },
  };
}

/** Makes a job's outputs from the engine's events, as they come. */
export interface OutputMaker {
  /** Takes an event. @param event its text, with the blank line that ends it */
  event(event: string): void;
  /** Ends an answer that is whole. */
  end(): void;
}

/** Returns the maker of a call's outputs. @param emit takes one output */
export function outputMaker(call: RunpodCall, emit: (output: unknown) => void): OutputMaker {
  switch (call.form) {
    case 'tokens':
      return new TokenBatches(call, emit);
    case 'openai_batches':
      return new OpenAIBatches(call, emit);
    case 'events':
      return new EventBatches(
        call,
        (events) => emit(events.join('')),
        (event) => event,
      );
    case 'chunks':
      return new EventBatches(call, emit, chunkOf);
    case 'passed':
      return { event: emit, end: () => {} };
  }
}

/** Makes the outputs of `prompt` or `messages`, in both generations of RunPod's worker. */
class TokenBatches implements OutputMaker {
  readonly #emit: (output: unknown) => void;
  readonly #batch: BatchCounter;
  readonly #count: number;
  #choices: { tokens: string[] }[];
  #usage: Usage = { input: 0, output: 0 };
  /** Whether the engine has reported its own count, so that outputs need not be counted. */
  #isCounted = false;
  #hasYielded = false;

  constructor({ batching, choices }: RunpodCall, emit: (output: unknown) => void) {
    this.#emit = emit;
    this.#batch = new BatchCounter(batching);
    this.#count = choices;
    this.#choices = this.#none();
  }

  event(event: string): void {
    const chunk = chunkOf(event) as { choices?: Choice[]; usage?: Fields } | null;
    const usage = usageOf(chunk?.usage);
    if (usage !== null) {
      this.#isCounted = true;
      this.#usage = usage;
    }
    for (const { index, text, delta } of chunk?.choices ?? []) {
      const token = text ?? delta?.content;
      if (typeof token !== 'string' || token === '') continue;
      if (!this.#isCounted) this.#usage = { ...this.#usage, output: this.#usage.output + 1 };
      this.#choices[index ?? 0]?.tokens.push(token);
      if (this.#batch.add()) this.#yield();
    }
  }

  end(): void {
    // The usage is reported even if there is no text.
    const hasTokens = this.#choices.some(({ tokens }) => tokens.length > 0);
    if (hasTokens || !this.#hasYielded) this.#yield();
  }

  #yield(): void {
    this.#emit({ choices: this.#choices, usage: this.#usage });
    this.#hasYielded = true;
    this.#choices = this.#none();
  }

  #none(): { tokens: string[] }[] {
    return Array.from({ length: this.#count }, () => ({ tokens: [] }));
  }
}

/**
 * Makes the outputs of 0.2 with `use_openai_format`: the last chunk of each batch, with the texts of all its chunks as
 * lists.
 */
class OpenAIBatches implements OutputMaker {
  readonly #emit: (output: unknown) => void;
  readonly #batch: BatchCounter;
  readonly #contents = new Map<number, string[]>();
  readonly #latest = new Map<number, Choice>();
  #last: Fields = {};
  #usage: unknown;

  constructor({ batching }: RunpodCall, emit: (output: unknown) => void) {
    this.#emit = emit;
    this.#batch = new BatchCounter(batching);
  }

  event(event: string): void {
    const chunk = chunkOf(event) as { choices?: Choice[]; usage?: unknown } | null;
    if (chunk === null) return;
    this.#usage = chunk.usage ?? this.#usage;
    let isFull = false;
    for (const choice of chunk.choices ?? []) {
      const content = choice.delta?.content ?? '';
      if (typeof content !== 'string') continue;
      const index = choice.index ?? 0;
      this.#last = chunk;
      this.#latest.set(index, choice);
      const contents = this.#contents.get(index) ?? [];
      if (content !== '') contents.push(content);
      this.#contents.set(index, contents);
      if (content !== '') isFull = this.#batch.add() || isFull;
    }
    if (isFull) this.#yield();
  }

  end(): void {
    if (this.#latest.size > 0) this.#yield();
  }

  #yield(): void {
    const choices = [...this.#latest].map(([index, choice]) => ({
      ...choice,
      delta: { ...choice.delta, content: this.#contents.get(index) },
    }));
    this.#emit({ ...this.#last, choices, ...(this.#usage ? { usage: this.#usage } : {}) });
    this.#contents.clear();
    this.#latest.clear();
  }
}

/** Makes the outputs of `openai_route` in 2.x. */
class EventBatches implements OutputMaker {
  readonly #emit: (events: unknown[]) => void;
  readonly #read: (event: string) => unknown;
  readonly #batch: BatchCounter;
  #events: unknown[] = [];

  /** @param read returns what an event contributes to the output; null: nothing */
  constructor({ batching }: RunpodCall, emit: (events: unknown[]) => void, read: (event: string) => unknown) {
    this.#emit = emit;
    this.#read = read;
    this.#batch = new BatchCounter(batching);
  }

  event(event: string): void {
    const contribution = this.#read(event);
    if (contribution === null) return;
    this.#events.push(contribution);
    if (this.#batch.add()) this.end();
  }

  end(): void {
    if (this.#events.length === 0) return;
    const events = this.#events;
    this.#events = [];
    this.#emit(events);
  }
}

/** Returns the data of an event as a value; null for the end mark and for data that is no JSON. */
function chunkOf(event: string): unknown {
  const data = eventData(event);
  try {
    const value: unknown = JSON.parse(data);
    return keepJson(value, data);
  } catch {
    return engineJson(data)?.value ?? null;
  }
}

/** Returns a usage in RunPod's words: prompt tokens in, completion tokens out. */
function usageOf(usage: Fields | null | undefined): Usage | null {
  if (typeof usage?.prompt_tokens !== 'number') return null;
  return { input: usage.prompt_tokens, output: Number(usage.completion_tokens ?? 0) };
}
