import { createHash } from 'node:crypto';
import { FIRST_REQUEST } from '../engine/client/first-answer.ts';
import { type EngineClient, readText } from '../engine/client/types.ts';
import { withTimeout } from '../process/clock.ts';
import { fieldsOf, jsonOrText, type ModelCard } from '../protocol/index.ts';
import type { Clock } from './clock.ts';

/** The text whose token ids tell tokenizers apart: words, digits, blanks, and letters and signs of several scripts. */
const PROBE =
  'The quick brown fox, 0123456789 3.14e-10; def f(x):\n\treturn  x["ключ"] Übergröße 東京都 한국어 العربية \u{1f600}\u{1f469}\u{200d}\u{1f680} <|im_end|>';

/** The time limit for the ids of the probe, ms: the engine has just answered its first request and is idle. */
const TOKENIZED_WITHIN_MS = 30_000;

/** The facts about an engine's model. */
interface KnownModel {
  /** The names that the engine answers to, its own first. */
  names: readonly string[];
  cards: readonly ModelCard[];
  /** The revision that the engine was told to load; null: none, or nobody knows. */
  revision: string | null;
  /** The version of what the worker was started with; null or left out: nobody names it. */
  version?: string | null;
}

/** Matches a model that is named by its place in a file system. */
const FOLDER = /^[/.~]/;

/**
 * Returns the name under which an engine's token ids are exchanged with those of other engines: its model, the model's
 * revision, and a hash of what its tokenizer makes of a fixed text. A folder may hold another model in each version of
 * an image, so its revision is that version. Never throws.
 * @returns null: the engine names no model
 */
export async function modelIdentity(
  { engine, clock }: { engine: Pick<EngineClient, 'request'>; clock: Clock },
  { names, cards, revision, version }: KnownModel,
): Promise<string | null> {
  const [name] = names;
  if (name === undefined) return null;
  const root = cards.find(({ id }) => id === name)?.root;
  const model = typeof root === 'string' && root !== '' ? root : name;
  const tokenizer = await withTimeout(clock, TOKENIZED_WITHIN_MS, (signal) =>
    fingerprint(engine, name, signal),
  ).catch(() => null);
  const known = revision ?? (FOLDER.test(model) ? version : null) ?? '';
  return [model.slice(0, 512), known.slice(0, 256), tokenizer ?? ''].join('@');
}

/** Says whether two identities may be of one model: an engine that does not tell its tokenizer's ids may have any. */
export function mayBeEqual(one: string, other: string): boolean {
  const [own, others] = [one, other].map((name) => {
    const at = name.lastIndexOf('@');
    return { model: name.slice(0, at), tokenizer: name.slice(at + 1) };
  }) as [Parts, Parts];
  const isTold = own.tokenizer !== '' && others.tokenizer !== '';
  return own.model === others.model && (!isTold || own.tokenizer === others.tokenizer);
}

interface Parts {
  /** The model and its revision. */
  model: string;
  tokenizer: string;
}

/** Hashes the ids of the probe; null: the engine has no route that tells them. */
async function fingerprint(
  engine: Pick<EngineClient, 'request'>,
  model: string,
  signal: AbortSignal,
): Promise<string | null> {
  const body = JSON.stringify({ model, prompt: PROBE });
  const answer = await engine.request({
    method: 'POST',
    path: '/tokenize',
    body,
    requestId: FIRST_REQUEST,
    signal,
  });
  const { tokens } = fieldsOf(jsonOrText(await readText(answer.body)));
  if (answer.status !== 200 || !Array.isArray(tokens)) return null;
  return createHash('sha256').update(JSON.stringify(tokens)).digest('hex').slice(0, 16);
}
