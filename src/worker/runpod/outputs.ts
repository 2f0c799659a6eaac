/** Outputs yielded one after another are joined up to this many characters. */
const JOINED_CHARACTERS = 256 * 1024;

interface TokenBatch {
  choices: { tokens: string[] }[];
  usage: unknown;
}

/**
 * Takes from the front of a job's outputs as much as one post to the platform may hold. Texts of events, lists of
 * chunks and batches of tokens can be joined without a reader noticing; any other output goes alone.
 */
export function takeJoined(outputs: unknown[]): unknown {
  const [first] = outputs;
  if (typeof first === 'string') return takeTexts(outputs as string[]);
  if (Array.isArray(first)) return takeRun(outputs, isList).flat();
  if (isTokenBatch(first))
    return takeRun(outputs, (output) => fits(first, output)).reduce(joinTokens as never);
  return outputs.shift();
}

function takeTexts(outputs: string[]): string {
  let size = 0;
  return takeRun(outputs, (output) => {
    if (typeof output !== 'string') return false;
    size += output.length;
    return size <= JOINED_CHARACTERS;
  }).join('');
}

/** Takes the first output, and those after it that go with it. */
function takeRun<T>(outputs: T[], goesWith: (output: T) => boolean): T[] {
  let count = 0;
  while (count < outputs.length && (goesWith(outputs[count]!) || count === 0)) count++;
  return outputs.splice(0, count);
}

function joinTokens(before: TokenBatch, next: TokenBatch): TokenBatch {
  return {
    choices: before.choices.map(({ tokens }, index) => ({
      tokens: [...tokens, ...next.choices[index]!.tokens],
    })),
    usage: next.usage,
  };
}

function fits(first: TokenBatch, output: unknown): boolean {
  return isTokenBatch(output) && output.choices.length === first.choices.length;
}

function isTokenBatch(output: unknown): output is TokenBatch {
  const { choices, usage } = Object(output) as { choices?: { tokens?: unknown }[]; usage?: unknown };
  return Array.isArray(choices) && usage !== undefined && choices.every((choice) => isList(choice?.tokens));
}

function isList(value: unknown): value is unknown[] {
  return Array.isArray(value);
}
