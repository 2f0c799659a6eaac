/**
 * Splits text into words as a POSIX shell does, without expansions, operators and comments: blanks separate words,
 * single quotes keep everything, double quotes keep everything but `\"`, `\\`, `\$` and `` \` ``, and a backslash keeps
 * the next character.
 * @throws SyntaxError when a quote is not closed or the text ends in a backslash
 */
export function splitShellWords(text: string): string[] {
  const words: string[] = [];
  /** The word so far; null between words: `''` is a word, a blank is none. */
  let word: string | null = null;
  let quote: '"' | "'" | null = null;
  for (let at = 0; at < text.length; at++) {
    const character = text[at]!;
    if (quote !== null && character === quote) {
      quote = null;
    } else if (character === '\\' && quote !== "'") {
      const next = text[++at];
      if (next === undefined) throw new SyntaxError('a backslash at the end keeps nothing');
      // A backslash before a line's end joins the lines.
      if (next === '\n') continue;
      word = (word ?? '') + (quote === '"' && !'"\\$`'.includes(next) ? `\\${next}` : next);
    } else if (quote !== null) {
      word += character;
    } else if (character === '"' || character === "'") {
      quote = character;
      word ??= '';
    } else if (/\s/.test(character)) {
      if (word !== null) words.push(word);
      word = null;
    } else {
      word = (word ?? '') + character;
    }
  }
  if (quote !== null) throw new SyntaxError(`a ${quote} is not closed`);
  if (word !== null) words.push(word);
  return words;
}
