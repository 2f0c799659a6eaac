/**
 * The forms of a flag:
 *
 * - `switch`: `--x` and `--no-x`
 * - `present`: `--x` or nothing
 * - `list`: `--x a b`
 * - `value`: `--x a`
 */
type FlagKind = 'switch' | 'present' | 'list' | 'value';

/** A flag of an engine's command line. */
export interface Flag {
  /** The flag's first long name, with the dashes: `--max-model-len`. */
  name: string;
  /** The flag's other names: `-tp`, `--device-memory-utilization`. */
  otherNames: string[];
  kind: FlagKind;
}

/** Matches choices, which may hold commas and blanks: `{a,b}`, `['a', 'b']`. */
const CHOICES = /\{[^}]*\}|\['[^\]]*'\]/g;
const A_NAME = /(?:^|, )(--?[a-zA-Z][\w.-]*)/g;

/** Returns the flags that a help text in the form of Python's argparse lists. */
export function parseHelp(help: string): Flag[] {
  return help
    .split('\n')
    .filter((line) => /^ {2}-/.test(line))
    .map(flagIn)
    .filter((flag) => flag !== null);
}

/** Parses a line such as `  --api-key API_KEY [API_KEY ...]   what it is for`. */
function flagIn(line: string): Flag | null {
  const said = line.trim().split(/ {2,}/)[0]!.replaceAll(CHOICES, 'CHOICE');
  const names = [...said.matchAll(A_NAME)].map((match) => match[1]!);
  const name = names.find((each) => each.startsWith('--') && !each.startsWith('--no-'));
  if (name === undefined || name === '--help') return null;
  const negated = `--no-${name.slice(2)}`;
  const otherNames = names.filter((each) => each !== name && !each.startsWith('--no-'));
  return { name, otherNames, kind: names.includes(negated) ? 'switch' : kindOf(said) };
}

function kindOf(said: string): FlagKind {
  if (/ \.\.\.\]/.test(said)) return 'list';
  return said.split(', ').some((part) => part.includes(' ')) ? 'value' : 'present';
}
