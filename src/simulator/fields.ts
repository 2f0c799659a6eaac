import { type BodyIssue, invalidBody } from './errors.ts';
import { countTokens, promptIds } from './text.ts';

export type Body = Record<string, unknown>;

/** Reads typed fields as pydantic does (numbers in strings are numbers) and gathers the errors. */
export class FieldParser {
  readonly body: Body;
  private readonly issues: BodyIssue[] = [];

  constructor(body: Body) {
    this.body = body;
  }

  integer(name: string): number | null {
    const value = this.body[name] ?? null;
    if (value === null) return null;
    const number = asNumber(value);
    if (number !== null && Number.isInteger(number)) return number;
    if (number !== null) {
      this.wrong(
        name,
        'int_from_float',
        'Input should be a valid integer, got a number with a fractional part',
      );
    } else {
      this.wrong(
        name,
        'int_parsing',
        'Input should be a valid integer, unable to parse string as an integer',
      );
    }
    return null;
  }

  number(name: string): number | null {
    const value = this.body[name] ?? null;
    if (value === null) return null;
    const number = asNumber(value);
    if (number === null) {
      this.wrong(name, 'float_parsing', 'Input should be a valid number, unable to parse string as a number');
    }
    return number;
  }

  flag(name: string): boolean {
    const value = this.body[name] ?? false;
    if (['true', 'True', '1', 1, true].includes(value as string)) return true;
    if (['false', 'False', '0', 0, false].includes(value as string)) return false;
    this.wrong(name, 'bool_parsing', 'Input should be a valid boolean, unable to interpret input');
    return false;
  }

  missing(path: string, parent: unknown = this.body): void {
    this.issues.push({ type: 'missing', path, message: 'Field required', input: parent });
  }

  wrong(path: string, type: string, message: string): void {
    this.issues.push({ type, path, message, input: this.body[path] });
  }

  /** Ends the parsing. @throws ApiError that lists everything wrong so far */
  check(): void {
    if (this.issues.length > 0) throw invalidBody(this.issues);
  }
}

function asNumber(value: unknown): number | null {
  if (typeof value === 'number') return value;
  if (typeof value !== 'string' || value.trim() === '') return null;
  const number = Number(value);
  return Number.isFinite(number) ? number : null;
}

/** One prompt, which has no text if it is a list of token ids. */
export interface Prompt {
  text: string;
  ids: readonly number[];
}

/** The number of tokens that the chat template adds around each message. */
const TEMPLATE_TOKENS = 4;

/** Returns the ids that replace a chat's messages, which are then ignored, or null. */
export function givenIds({ kv_transfer_params: params }: Body): number[] | null {
  const ids = (params as Body | null | undefined)?.prompt_token_ids;
  return Array.isArray(ids) && ids.length > 0 ? ids.map(Number) : null;
}

/** Returns the ids of a chat. @param texts the texts of its messages */
export function chatIds(messages: readonly unknown[], texts: readonly string[], model: string): number[] {
  const tokens = texts.reduce((sum, one) => sum + countTokens(one) + TEMPLATE_TOKENS, 0);
  return promptIds(JSON.stringify([model, messages]), tokens);
}

/** Returns the ids of a text. */
export function textIds(prompt: string, model: string): number[] {
  return promptIds(JSON.stringify([model, prompt]), countTokens(prompt));
}

/** Reads prompts: a text, a list of token ids, or a list of either. */
export function readPrompts(prompt: unknown, model: string): Prompt[] {
  if (typeof prompt === 'string') {
    return prompt === '' ? [] : [{ text: prompt, ids: textIds(prompt, model) }];
  }
  if (!Array.isArray(prompt) || prompt.length === 0) return [];
  if (prompt.every((id) => typeof id === 'number')) return [{ text: '', ids: prompt }];
  return prompt.flatMap((one) => readPrompts(one, model));
}
