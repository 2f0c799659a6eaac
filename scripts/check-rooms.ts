import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize, relative, sep } from 'node:path';

/**
 * The rooms of docs/architecture.md: who may import whom, and how long a file may be.
 * `room` allows the whole room, `room/file` one file of it.
 */
const MAY_IMPORT: Record<string, readonly string[]> = {
  protocol: [],
  process: [],
  settings: ['protocol'],
  queue: ['protocol', 'settings', 'relay/calls'],
  relay: ['protocol'],
  gateway: ['protocol', 'settings', 'process/network', 'queue/calls', 'relay/calls'],
  engine: ['protocol', 'process'],
  worker: ['protocol', 'engine', 'process'],
  supervisor: ['protocol', 'engine', 'process', 'worker/variables'],
  simulator: ['protocol', 'process'],
  workerd: ['protocol', 'settings', 'process', 'gateway/auth'],
  commands: ['protocol', 'engine', 'process', 'supervisor', 'gateway/auth', 'workerd'],
};

/** Files that tie rooms together: the bundle's entry names its object classes. */
const MAY_ALSO_IMPORT: Record<string, readonly string[]> = {
  'gateway/main': ['queue/object', 'relay/object'],
};

/** A file should be read in one sitting. */
const MOST_LINES = 320;

/** Problems of the tree under `sourceDir`, one line each. */
export function checkRooms(sourceDir: string): string[] {
  const files = readdirSync(sourceDir, { recursive: true, encoding: 'utf8' }).filter((file) =>
    file.endsWith('.ts'),
  );
  return files.flatMap((file) => {
    const text = readFileSync(join(sourceDir, file), 'utf8');
    const lines = text.split('\n').length;
    const long = lines > MOST_LINES ? [`src/${file}: ${lines} lines, ${MOST_LINES} at most`] : [];
    return [...long, ...checkImports(file.split(sep).join('/'), text)];
  });
}

function checkImports(file: string, text: string): string[] {
  const room = file.split('/')[0]!;
  if (!file.includes('/')) return [];
  const allowed = MAY_IMPORT[room];
  if (!allowed)
    return [`src/${file}: the room "${room}" is not in the import table of scripts/check-rooms.ts`];
  const also = MAY_ALSO_IMPORT[file.replace(/\.ts$/, '')] ?? [];
  return importsOf(text).flatMap((specifier) => {
    if (!specifier.startsWith('.')) return [];
    const target = normalize(join(dirname(file), specifier))
      .split(sep)
      .join('/')
      .replace(/\.ts$/, '');
    if (target.startsWith('..')) return [];
    const targetRoom = target.split('/')[0]!;
    const fine =
      targetRoom === room || [...allowed, ...also].some((entry) => entry === targetRoom || entry === target);
    return fine
      ? []
      : [`src/${file}: imports ${target}; ${room} may import ${allowed.join(', ') || 'nothing'}`];
  });
}

function importsOf(text: string): string[] {
  const pattern =
    /(?:^|\n)\s*(?:import|export)\b[^;'"]*?from\s*['"]([^'"]+)['"]|import\(\s*['"]([^'"]+)['"]\s*\)/g;
  return [...text.matchAll(pattern)].map((match) => match[1] ?? match[2]!);
}

if (import.meta.main) {
  const problems = checkRooms(relative(process.cwd(), join(import.meta.dirname, '..', 'src')) || 'src');
  for (const problem of problems) console.error(problem);
  process.exitCode = problems.length > 0 ? 1 : 0;
}
