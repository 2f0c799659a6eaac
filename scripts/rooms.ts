import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/**
 * The table of rooms in docs/rooms.md, read as the rules that `npm run check` enforces (dependency-cruiser.js):
 *
 *     | `queue/` | what it is for | protocol, `relay/calls` |
 *
 * - A row holds for each folder of `src/` that it names.
 * - A room imports itself and what its row names: rooms, folders and files, without `.ts`. `*` stands for any part of a name.
 * - A folder of a room with a row of its own imports itself and, within its room, only what that row names.
 *   What lies outside follows the row of its room. Folders without a row are part of their room.
 */
export interface Row {
  /** `queue/` or `queue/store/`. */
  path: string;
  /** `protocol`, `relay/calls`. */
  mayImport: string[];
}

/** A rule of dependency-cruiser. */
interface Rule {
  name: string;
  comment: string;
  severity: 'error';
  from: { path: string };
  to: { path: string; pathNot: string[] };
}

const root = join(import.meta.dirname, '..');
const ROW = /^\| ((?:`[\w/-]+`(?:, )?)+) \|.*\| ([^|]*) \|$/;

/**
 * The rows of the table.
 * @throws Error that names the row, when the table and the folders disagree
 */
export function readRooms(
  document = readFileSync(join(root, 'docs/rooms.md'), 'utf8'),
  sources = join(root, 'src'),
): Row[] {
  const rows = document.split('\n').flatMap((line) => {
    const [, folders, imports] = ROW.exec(line) ?? [];
    if (!folders || !imports) return [];
    const mayImport = imports === '–' ? [] : namesIn(imports, folders);
    return namesIn(folders, folders).map((path) => ({ path, mayImport }));
  });
  const fault = faultIn(rows, sources);
  if (fault) throw new Error(`docs/rooms.md: ${fault}`);
  return rows;
}

function namesIn(names: string, folders: string): string[] {
  return names.split(',').map((text) => {
    const [, name] = /^\s*`?([\w./*-]+?)`?\s*$/.exec(text) ?? [];
    if (!name) throw new Error(`docs/rooms.md: the row of ${folders} names "${text.trim()}"?`);
    return name;
  });
}

function faultIn(rows: Row[], sources: string): string | undefined {
  const there = readdirSync(sources, { recursive: true, encoding: 'utf8' }).flatMap((path) => [
    `src/${path}`,
    `src/${path}/`,
  ]);
  const named = rows.flatMap(({ path, mayImport }) => [path, ...mayImport]);
  const dead = named.find((name) => !there.some((path) => new RegExp(exactly(name)).test(path)));
  if (dead) return `there is no src/${dead}`;
  const rooms = readdirSync(sources, { withFileTypes: true }).filter((entry) => entry.isDirectory());
  const missing = rooms.find(({ name }) => !rows.some(({ path }) => path === `${name}/`));
  return missing && `no row for src/${missing.name}/`;
}

/** Returns the rules of what each row forbids. */
export function importRules(rows: Row[]): Rule[] {
  return rows.map(({ path, mayImport }) => {
    const room = path.split('/')[0]!;
    return {
      name: path,
      comment: `${path} may import ${mayImport.join(', ') || 'nothing'} (docs/rooms.md)`,
      severity: 'error',
      from: { path: exactly(path) },
      to: {
        path: path === `${room}/` ? '^src/' : `^src/${room}/`,
        pathNot: [path, ...mayImport].map(exactly),
      },
    };
  });
}

/** A folder and all in it, or one file. */
function exactly(name: string): string {
  const plain = name.replace(/\/$/, '').replaceAll(/[.-]/g, '\\$&').replaceAll('*', '[^/]*');
  return `^src/${plain}(?:/|\\.tsx?$)`;
}
