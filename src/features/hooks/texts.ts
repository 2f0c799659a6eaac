import { bytesOfBase64, engineJson, eventData, isObject, splitEvents } from '../../protocol/index.ts';
import { isBinary, isEvents, kindOfType } from './kind.ts';

/**
 * Finds what a model wrote in an answer, in the forms of the APIs that engines and workers have: text, reasoning,
 * refusals, arguments of tool calls. Fields are found by their names wherever they stand, since engines add fields of
 * their own to all of these forms.
 */

/** A text of an answer. */
export interface AnswerText {
  /** Texts of one channel belong together, in their order: the text of one choice, the arguments of one tool call. */
  channel: string;
  /** The channels of a group follow on each other, as reasoning and text do: when one begins, the others are over. */
  group: string;
  /** The name of the field that has it, as hooks are told it: `content`, `text`, `reasoning`, `arguments`, … */
  part: string;
  text: string;
  /** Whether it is all of the channel's text, which came in pieces before: the last events of a response repeat it. */
  isWhole: boolean;
  /** Puts another text in its place. @throws Error where the place does not take it */
  set(text: string): void;
}

/** The texts of a value, and the groups that are over with it. */
export interface FoundTexts {
  texts: AnswerText[];
  /** The groups whose channels get no more text. */
  over: string[];
  /** The groups of which it tells tokens (`logprobs`, `token_ids`), which may be those of a text that follows. */
  tokens: string[];
}

type Fields = Record<string, unknown>;

interface Place {
  prefix: string;
  group: string;
  isWhole: boolean;
}

/** Fields whose text, or list of texts, a model wrote. */
const TEXTS = new Set([
  'content',
  'text',
  'reasoning',
  'reasoning_content',
  'thinking',
  'refusal',
  'arguments',
  'partial_json',
  'tool_plan',
  'transcript',
  'tokens',
]);

/** Fields that hold nothing a model wrote, or repeat what the caller sent. */
const SKIPPED = new Set([
  'usage',
  'logprobs',
  'prompt_logprobs',
  'metadata',
  'tools',
  'tool_choice',
  'instructions',
  'error',
  'embedding',
  'annotations',
  'metrics',
]);

/** Lists whose elements are channels of their own, and the letter that tells them apart. */
const LISTS: Record<string, string> = {
  choices: 'n',
  tool_calls: 't',
  content: 'c',
  summary: 's',
  segments: 'g',
};
const INDEXES: Record<string, string> = {
  output_index: 'o',
  content_index: 'c',
  summary_index: 's',
  index: 'i',
};

/** Fields of results that hold a whole answer, or a piece of one: events, or text such as that of a transcription. */
const ANSWERS = new Set(['output', 'body']);

/** The types of events that repeat text which came before. */
const REPEATS = /\.done$|^response\.(?:completed|incomplete|failed)$/;
const ENDS = /\.done$|^content_block_stop$|^content-end$/;

/** Finds the texts of an answer, an event or a result. `set` changes the value itself. */
export function textsIn(value: unknown): FoundTexts {
  const found: FoundTexts = { texts: [], over: [], tokens: [] };
  walk(value, { prefix: '', group: '', isWhole: false }, found);
  return found;
}

function walk(value: unknown, place: Place, found: FoundTexts): void {
  if (Array.isArray(value)) for (const one of value) walk(one, place, found);
  else if (isObject(value)) walkObject(value, place, found);
}

function walkObject(fields: Fields, outer: Place, found: FoundTexts): void {
  const indexes = Object.entries(INDEXES).flatMap(([name, letter]) =>
    typeof fields[name] === 'number' ? [`${letter}${fields[name]}`] : [],
  );
  const type = typeof fields.type === 'string' ? fields.type : '';
  const isWhole = outer.isWhole || REPEATS.test(type);
  const place = { ...outer, isWhole, prefix: outer.prefix + indexes.join('') };
  for (const [name, value] of Object.entries(fields)) {
    if (SKIPPED.has(name)) continue;
    if (typeof value === 'string') textAt(fields, name, value, place, found);
    else if (Array.isArray(value)) walkList(name, value, place, found);
    else if (isObject(value)) inputOrObject(fields, name, value, place, found);
  }
  if (tellsTokens(fields.logprobs) || tellsTokens(fields.token_ids)) found.tokens.push(place.group);
  // A choice that has ended gets no more text.
  if (ENDS.test(type) || (fields.finish_reason != null && place.group !== '')) found.over.push(place.group);
}

function textAt(fields: Fields, name: string, value: string, place: Place, found: FoundTexts): void {
  if (name === 'body_base64') return bytesAt(fields, value, place, found);
  if (ANSWERS.has(name)) {
    answerText(value, place, found, (text) => {
      fields[name] = text;
    });
    return;
  }
  const part = partOf(fields, name);
  if (part === null || value === '') return;
  add(found, place, part, value, (text) => {
    fields[name] = text;
  });
}

/** Finds the texts of a whole answer that is no JSON: of its events, or itself. */
function answerText(value: string, place: Place, found: FoundTexts, put: (text: string) => void): void {
  const text = value.replace(/^\uFEFF/, '');
  if (isEvents(text)) events(text, place, found, put);
  else if (value !== '') add(found, place, 'text', value, put);
}

/** Finds the texts of an answer whose bytes are no UTF-8, though its type says that it is text, or says nothing. */
function bytesAt(fields: Fields, base64: string, place: Place, found: FoundTexts): void {
  const kind = kindOfType(typeof fields.content_type === 'string' ? fields.content_type : null);
  if (kind === 'bytes') return;
  const bytes = bytesOfBase64(base64);
  if (kind === null && isBinary(bytes)) return;
  answerText(new TextDecoder().decode(bytes), place, found, (text) => {
    fields.body = text;
    delete fields.body_base64;
  });
}

/** Returns the name of what a field holds; null: no text of a model. */
function partOf(fields: Fields, name: string): string | null {
  if (TEXTS.has(name)) return name;
  const type = String(fields.type ?? '');
  if (name === 'input' && /custom_tool_call/.test(type)) return 'input';
  if (name === 'code' && /code_interpreter/.test(type)) return 'code';
  // The pieces of audio are in base64, beside those of its transcript.
  if (name !== 'delta' || /audio\.delta$/.test(type)) return null;
  if (/arguments/.test(type)) return 'arguments';
  if (/refusal/.test(type)) return 'refusal';
  return /input/.test(type) ? 'input' : 'text';
}

function add(
  found: FoundTexts,
  { prefix, group, isWhole }: Place,
  part: string,
  text: string,
  set: AnswerText['set'],
): void {
  found.texts.push({ channel: `${prefix}.${part}`, group, part, text, isWhole, set });
}

function walkList(name: string, list: unknown[], place: Place, found: FoundTexts): void {
  const letter = name === 'output' && list.every(isItem) ? 'o' : LISTS[name];
  for (const [at, value] of list.entries()) {
    if (typeof value === 'string') {
      const put = (text: string) => {
        list[at] = text;
      };
      if (ANSWERS.has(name)) answerText(value, place, found, put);
      else if (TEXTS.has(name) && value !== '') add(found, place, name, value, put);
      continue;
    }
    const own = isObject(value) && typeof value.index === 'number';
    // An element that says its index says it itself, in whichever order the elements stand.
    const prefix = place.prefix + (letter === undefined ? '' : own ? letter : `${letter}${at}`);
    const choice = own ? String((value as Fields).index) : String(at);
    const group = name === 'choices' ? `${place.group}n${choice}` : place.group;
    walk(value, { ...place, prefix, group }, found);
  }
}

/** Whether a value is an item of a response; the outputs of a job in RunPod's form are none. */
function isItem(value: unknown): boolean {
  return isObject(value) && typeof value.type === 'string' && !value.type.startsWith('response.');
}

/** Walks an object, unless it is the input of a tool call of Anthropic's, which counts as its JSON. */
function inputOrObject(fields: Fields, name: string, value: Fields, place: Place, found: FoundTexts): void {
  if (name !== 'input' || fields.type !== 'tool_use') return walk(value, place, found);
  if (Object.keys(value).length === 0) return;
  add(found, place, 'input', JSON.stringify(value), (text) => {
    const input: unknown = JSON.parse(text);
    if (!isObject(input)) throw new Error('the input of a tool call has to stay JSON of an object');
    fields.input = input;
  });
}

/** Finds the texts of events within a text. */
function events(text: string, place: Place, found: FoundTexts, put: (text: string) => void): void {
  const split = splitEvents(text);
  for (const [at, event] of split.entries()) {
    const within = textsOfEvent(event);
    for (const one of within.texts)
      found.texts.push({
        ...one,
        channel: `${place.prefix}/${one.channel}`,
        group: place.group + one.group,
        set: (text) => {
          one.set(text);
          split[at] = within.changed();
          put(split.join(''));
        },
      });
  }
}

/**
 * Finds the texts of an event. Data that is no JSON of an object is text as a whole: nothing passes unseen for being
 * written oddly.
 * @returns the texts, and a function that writes the event with what was set
 */
export function textsOfEvent(event: string): FoundTexts & { changed(): string } {
  const data = eventData(event);
  const value = engineJson(data)?.value;
  if (typeof value === 'object' && value !== null)
    return { ...textsIn(value), changed: () => withData(event, value) };
  if (data === '' || data === '[DONE]') return { texts: [], over: [], tokens: [], changed: () => event };
  let odd = event;
  const set = (text: string) => {
    odd = `data: ${text.replaceAll(/[\r\n]+/g, ' ')}\n\n`;
  };
  const at = { channel: 'data', group: 'data', part: 'data', text: data, isWhole: false, set };
  return { texts: [at], over: ['data'], tokens: [], changed: () => odd };
}

/** Returns an event with other data. What goes with the tokens of the text before is left out. */
function withData(event: string, value: unknown): string {
  const lines = event.split(/\r\n|\n|\r/).filter((line) => line !== '' && !line.startsWith('data'));
  return `${[...lines, `data: ${JSON.stringify(withoutTokens(value))}`].join('\n')}\n\n`;
}

/** Says whether `logprobs` or `token_ids` tell any token. */
function tellsTokens(value: unknown): boolean {
  if (Array.isArray(value)) return value.length > 0;
  return isObject(value) && Object.values(value).some(tellsTokens);
}

/** Empties, in place, what tells the tokens of a text that was replaced. @returns the value */
export function withoutTokens<T>(value: T): T {
  if (Array.isArray(value)) for (const one of value) withoutTokens(one);
  else if (isObject(value)) {
    const fields = value as Fields;
    for (const [name, inner] of Object.entries(fields)) {
      if (name === 'token_ids') fields[name] = null;
      else if (name === 'logprobs') fields[name] = Array.isArray(inner) ? [] : null;
      else withoutTokens(inner);
    }
  }
  return value;
}
