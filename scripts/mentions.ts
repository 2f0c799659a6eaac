import { posix } from 'node:path';

/** A file or folder gets another path. Both are from the repository's root, without a slash at the end. */
export interface Move {
  from: string;
  to: string;
}

const { basename, dirname, join, relative } = posix;
const CODE = /\.(?:[cm]?[jt]sx?|css|html)$/;
const CONFIGURATION = /\.(?:jsonc?|ya?ml|toml|hcl)$/;

/**
 * The files of a repository as they are before a move, and what their mentions of what moves become. A path is
 * recognised from the file that names it (imports, `new URL`, links), from the repository's root (`src/queue/queue.ts`,
 * anywhere), and from `src` (`queue/queue.ts`, in comments and between backticks). What is put together from parts or
 * matched by a pattern is not recognised.
 */
export class Mentions {
  readonly #move: Move;
  readonly #files: Set<string>;
  readonly #folders: Set<string>;

  /** @param files every file of the repository, from its root */
  constructor(move: Move, files: readonly string[]) {
    this.#move = move;
    this.#files = new Set(files);
    this.#folders = new Set(files.flatMap((file) => parentsOf(file)));
  }

  /** Where a file or folder is after the move. */
  moved(path: string): string {
    const { from, to } = this.#move;
    return path === from || path.startsWith(`${from}/`) ? to + path.slice(from.length) : path;
  }

  /**
   * @param file its path before the move
   * @returns its text after the move
   */
  rewrite(file: string, text: string): string {
    const rest = this.#fromSources(file, this.#fromRoot(this.#fromFile(file, text)));
    return file === 'docs/rooms.md' ? this.#roomNames(rest) : rest;
  }

  #fromFile(file: string, text: string): string {
    const again = (path: string, isFolderMeant: boolean) => this.#relative(file, path, isFolderMeant);
    if (file.endsWith('.md')) return text.replaceAll(/(?<=\]\()[^)\s#:]+/g, (path) => again(path, true));
    if (CONFIGURATION.test(file))
      return text.replaceAll(/(?<=(["']))\.{1,2}\/[^"'\s]+(?=\1)/g, (path) => again(path, true));
    if (!CODE.test(file)) return text;
    // Beside `import.meta` a folder counts too: elsewhere '..' may be anything.
    const literals =
      /(?<=(?:import\.meta\.dirname,|new URL\()\s*(['"`]))[^'"`$\n]+(?=\1|\$\{)|(?<=(['"`]))\.{1,2}\/[^'"`\s$]+(?=\2)/g;
    return text.replaceAll(literals, (path, isAnchored: string | undefined) =>
      again(path, isAnchored !== undefined),
    );
  }

  /** A path as a file names it, after the move of either. */
  #relative(file: string, path: string, isFolderMeant: boolean): string {
    const target = join(dirname(file), path).replace(/\/$/, '');
    const isThere = this.#files.has(target) || (isFolderMeant && this.#folders.has(target));
    if (!isThere) return path;
    const before = relative(dirname(file), target);
    const after = relative(dirname(this.moved(file)), this.moved(target));
    if (before === after) return path;
    const dot = /^\.\.?(?:\/|$)/.test(path) && !after.startsWith('.') ? './' : '';
    return (dot + after || '.') + (path.endsWith('/') ? '/' : '');
  }

  #fromRoot(text: string): string {
    const { from, to } = this.#move;
    return text.replaceAll(this.#pattern(from, String.raw`(?<![\w-]|\.\.\/)`), (path) => as(path, from, to));
  }

  #fromSources(file: string, text: string): string {
    const names = this.#names();
    if (names.length === 0) return text;
    const rename = (words: string) =>
      names.reduce(
        (renamed, [from, to, isRoom]) =>
          renamed.replaceAll(this.#pattern(from, String.raw`(?<![\w./-])`, isRoom ? '(?=/)' : ''), (path) =>
            as(path, from, to),
          ),
        words,
      );
    if (file.endsWith('.md')) return text.replaceAll(/`[^`\n]+`/g, rename);
    return CODE.test(file) ? text.replaceAll(/(?:^\s*\*|\/\*\*|\/\/ ).*$/gm, rename) : text;
  }

  /** What moves, as it is named from `src`, and by its last part if that is clear. */
  #names(): [from: string, to: string, isRoom: boolean][] {
    const { from, to } = this.#move;
    const [name, newName] = [basename(from), basename(to)];
    const isOnly =
      this.#files.has(from) && ![...this.#files].some((file) => file !== from && basename(file) === name);
    const inSources = from.startsWith('src/') && from !== `src/${name}`;
    const isRoom = from === `src/${name}` && this.#folders.has(from);
    return [
      ...(inSources || isRoom ? [[from.slice(4), to.replace(/^src\//, ''), isRoom] as const] : []),
      ...(isOnly && name !== newName ? [[name, newName, false] as const] : []),
    ].map(([before, after, room]) => [before, after, room]);
  }

  /** Names of rooms in the column "may import", which need no backticks. */
  #roomNames(text: string): string {
    const from = /^src\/([\w-]+)$/.exec(this.#move.from)?.[1];
    if (!from) return text;
    const to = this.#move.to.replace(/^src\//, '');
    const cell = new RegExp(`(?<=[|,] )${from}(?=[,] | \\|$)`, 'g');
    const rename = (row: string) => row.replaceAll(cell, /^\w+$/.test(to) ? to : `\`${to}\``);
    return text.replaceAll(/^\| `[\w./-]+` \|.*$/gm, (row) => {
      const imports = row.lastIndexOf('|', row.length - 2);
      return row.slice(0, imports) + rename(row.slice(imports));
    });
  }

  /** A path in a text, with or without `.ts` where no folder has the same name. */
  #pattern(path: string, before: string, after = ''): RegExp {
    const short = path.replace(/(?:\.test)?\.tsx?$/, '');
    const hasTwin = short !== path && (this.#folders.has(short) || this.#folders.has(`src/${short}`));
    const isBare = !short.includes('/');
    const end =
      hasTwin || isBare || short === path
        ? escaped(path.slice(short.length))
        : `(?:${escaped(path.slice(short.length))})?`;
    const more = short === path ? '' : '/';
    return new RegExp(`${before}${escaped(short)}${end}(?![\\w${more}-]|\\.\\w)${after}`, 'g');
  }
}

/** The new path, with an end if the old one was written with it. */
function as(written: string, from: string, to: string): string {
  return written === from ? to : to.replace(/(?:\.test)?\.tsx?$/, '');
}

function parentsOf(file: string): string[] {
  const above = dirname(file);
  return above === '.' ? ['.'] : [above, ...parentsOf(above)];
}

const escaped = (text: string) => text.replaceAll(/[.*+?^${}()|[\]\\/-]/g, '\\$&');
