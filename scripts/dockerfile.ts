/** As much of the Dockerfile's language as the Dockerfiles here use. */

export interface Instruction {
  keyword: string;
  text: string;
}

export interface Stage {
  name: string;
  /** Another stage, or an image. */
  base: string;
  instructions: Instruction[];
}

/** @param args build arguments, before the defaults that stand above the first FROM */
export function parseDockerfile(source: string, args: Record<string, string> = {}): Stage[] {
  const variables: Record<string, string> = {};
  const stages: Stage[] = [];
  for (const instruction of instructionsOf(source)) {
    const stage = stages.at(-1);
    if (instruction.keyword === 'FROM') {
      const [base = '', , name = ''] = expand(instruction.text, variables).split(/\s+/);
      stages.push({ name, base, instructions: [] });
    } else if (stage) {
      stage.instructions.push(instruction);
    } else {
      const [name = '', value = ''] = instruction.text.split('=');
      variables[name] = args[name] ?? value;
    }
  }
  return stages;
}

/** What makes the last stage: the image at the bottom, and the instructions upon it, in order. */
export function stageChain(stages: Stage[]): { base: string; instructions: Instruction[] } {
  const last = stages.at(-1);
  if (!last) throw new Error('there is no FROM');
  const below = stages.findIndex(({ name }) => name === last.base);
  if (below < 0) return last;
  const { base, instructions } = stageChain(stages.slice(0, below + 1));
  return { base, instructions: [...instructions, ...last.instructions] };
}

/** `$name`, `${name}`, `${name:-otherwise}` and `${name:+instead}`. */
export function expand(text: string, variables: Record<string, string>): string {
  return text.replace(
    /\$(?:(\w+)|\{(\w+)(?::([-+])([^}]*))?\})/g,
    (_, plain?: string, braced?: string, operator?: string, word = '') => {
      const value = variables[(plain ?? braced)!] ?? '';
      if (operator === '+') return value === '' ? '' : word;
      return value === '' && operator === '-' ? word : value;
    },
  );
}

function instructionsOf(source: string): Instruction[] {
  const lines = source.split('\n').filter((line) => !/^\s*#/.test(line));
  const joined = lines.join('\n').replace(/\\\n\s*/g, '');
  return joined
    .split('\n')
    .map((line) => /^\s*(\w+)\s*(.*?)\s*$/.exec(line))
    .filter((match) => match !== null)
    .map(([, keyword = '', text = '']) => ({ keyword: keyword.toUpperCase(), text }));
}

export interface IgnoreRule {
  pattern: RegExp;
  /** `!pattern`: what it matches is kept after all. */
  keeps: boolean;
}

/** Rules of a .dockerignore: from the context's root, `*` within a folder, `**` across folders. */
export function readIgnoreRules(source: string): IgnoreRule[] {
  const lines = source.split('\n').map((line) => line.trim());
  return lines
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line) => {
      const keeps = line.startsWith('!');
      const path = line.slice(keeps ? 1 : 0).replace(/^\/|\/$/g, '');
      const parts = path.split(/(\*\*\/?|\*|\?)/).map((part) => {
        if (part.startsWith('**')) return '(?:.*/)?';
        if (part === '*') return '[^/]*';
        return part === '?' ? '[^/]' : part.replace(/[.+^${}()|[\]\\]/g, '\\$&');
      });
      // A rule for a folder is one for all that is in it.
      return { keeps, pattern: new RegExp(`^${parts.join('')}(?:/.*)?$`) };
    });
}

/** The last rule that matches decides. */
export function isIgnored(path: string, rules: IgnoreRule[]): boolean {
  const rule = rules.findLast(({ pattern }) => pattern.test(path.replace(/\/$/, '')));
  return rule !== undefined && !rule.keeps;
}
