import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/**
 * The table of rooms in docs/rooms.md, read as the rules that `npm run check` enforces
 * (dependency-cruiser.js). A row is a folder of `src/` or one file of it:
 *
 *     | `queue/` | what it is for | protocol, `relay/calls` |
 *
 * - A room imports itself and what its row names: rooms, folders and files, without `.ts`.
 * - A folder of a room with a row of its own imports itself and, within its room, only what that row names.
 *   What lies outside follows the row of its room. Folders without a row are part of their room.
 * - A file's row adds to what its room may import.
 */
export interface Row {
  /** `queue/`, `queue/store/` or `host/cloudflare/main.ts`. */
  path: string;
  /** `protocol`, `relay/calls`. */
  mayImport: string[];
}

/** A rule of dependency-cruiser. */
interface Rule {
  name: string;
  comment: string;
  severity: 'error';
  from: { path: string; pathNot?: string[] };
  to: { path: string; pathNot?: string[] };
}

const root = join(import.meta.dirname, '..');
const ROW = /^\| `([\w./-]+)` \|.*\| ([^|]*) \|$/;

/**
 * The rows of the table.
 * @throws Error that names the row, when the table and the folders disagree
 */
export function readRooms(
  document = readFileSync(join(root, 'docs/rooms.md'), 'utf8'),
  sources = join(root, 'src'),
): Row[] {
  const rows = document.split('\n').flatMap((line) => {
    const [, path, imports] = ROW.exec(line) ?? [];
    return path && imports ? [{ path, mayImport: imports === '–' ? [] : namesIn(imports, path) }] : [];
  });
  const fault = faultIn(rows, sources);
  if (fault) throw new Error(`docs/rooms.md: ${fault}`);
  return rows;
}

function namesIn(imports: string, path: string): string[] {
  return imports.split(',').map((text) => {
    const [, name] = /^\s*`?([\w./-]+?)`?\s*$/.exec(text) ?? [];
    if (!name) throw new Error(`docs/rooms.md: "${path}" may import "${text.trim()}"?`);
    return name;
  });
}

function faultIn(rows: Row[], sources: string): string | undefined {
  const exists = (name: string) =>
    existsSync(join(sources, name)) ||
    ['ts', 'tsx'].some((end) => existsSync(join(sources, `${name}.${end}`)));
  const named = rows.flatMap(({ path, mayImport }) => [path, ...mayImport]);
  const dead = named.find((name) => !exists(name));
  if (dead) return `there is no src/${dead}`;
  const rooms = readdirSync(sources, { withFileTypes: true }).filter((entry) => entry.isDirectory());
  const missing = rooms.find(({ name }) => !rows.some(({ path }) => path === `${name}/`));
  return missing && `no row for src/${missing.name}/`;
}

/** What each row forbids. */
export function importRules(rows: Row[]): Rule[] {
  const files = rows.filter(({ path }) => !path.endsWith('/'));
  const folders = rows.filter(({ path }) => path.endsWith('/'));
  return [
    ...folders.map((row) => {
      const room = row.path.split('/')[0];
      const isRoom = row.path === `${room}/`;
      return rule(row, {
        from: exactly(row.path),
        except: isRoom ? files.filter(({ path }) => path.startsWith(row.path)) : [],
        to: isRoom ? '^src/' : `^src/${room}/`,
      });
    }),
    ...files.map((row) => {
      const room = folders.find(({ path }) => row.path.startsWith(path))!;
      const mayImport = [...room.mayImport, room.path, ...row.mayImport];
      return rule({ path: row.path, mayImport }, { from: exactly(row.path), except: [], to: '^src/' });
    }),
  ];
}

function rule(
  { path, mayImport }: Row,
  { from, except, to }: { from: string; except: Row[]; to: string },
): Rule {
  const pathNot = except.map((file) => exactly(file.path));
  return {
    name: path,
    comment: `${path} may import ${mayImport.join(', ') || 'nothing'} (docs/rooms.md)`,
    severity: 'error',
    from: pathNot.length > 0 ? { path: from, pathNot } : { path: from },
    to: { path: to, pathNot: [path, ...mayImport].map(exactly) },
  };
}

/** A folder and all in it, or one file. */
function exactly(path: string): string {
  const plain = path.replace(/(?:\/|\.ts)$/, '').replaceAll(/[.-]/g, '\\$&');
  return `^src/${plain}(?:/|\\.tsx?$)`;
}
