import { readFile } from 'node:fs/promises';
import { basename } from 'node:path';
import { type Document, isAlias, isMap, isScalar, isSeq, LineCounter, type Node, parseDocument } from 'yaml';
import { UserError } from '../../process/index.ts';
import { protoIn } from '../../protocol/fields.ts';
import { schemaWords } from '../../protocol/schema-words.ts';
import { FleetSpec, type FleetSpec as FleetSpecType } from '../../scheduler/spec.ts';
import { unreadable } from '../json-files.ts';
import { impossible } from './cost.ts';
import { environmentRemarks, type Remark, remarksOf, secretRemarks } from './remarks.ts';

/** The most faults or warnings that are shown; the message counts all faults. */
const MOST_SHOWN = 50;

/** A fault or warning about one place of the file. Lines and columns count from 1. */
interface Finding {
  line: number;
  column: number;
  /** The path of the place, such as `pools.llama.machines[0].provider`; empty for the file as a whole. */
  path: string;
  text: string;
}

export interface FleetText {
  /** The spec; null if there are faults. */
  spec: FleetSpecType | null;
  /** The file's content as plain data, in the form for the queue. */
  document: unknown;
  faults: Finding[];
  warnings: Finding[];
}

export interface FleetFile {
  spec: FleetSpecType;
  document: unknown;
  /** The warnings, a line each, with their places. */
  warnings: string[];
}

/**
 * Reads fleet.yaml.
 * @param env the environment that should hold the secrets which the file names
 * @throws UserError with all faults, a line each: `fleet.yaml:12:7: pools.llama.model: …`
 */
export async function readFleetFile(path: string, env: NodeJS.ProcessEnv): Promise<FleetFile> {
  const text = await readFile(path, 'utf8').catch((error: unknown) => {
    throw unreadable(path, error, 'examples/fleet.yaml is one to begin with.');
  });
  const { spec, document, faults, warnings } = readFleetText(text, env);
  const name = basename(path);
  if (spec === null) {
    const count = faults.length === 1 ? 'one fault' : `${faults.length} faults`;
    throw new UserError(`${path} has ${count}:\n${linesOf(name, faults.slice(0, MOST_SHOWN)).join('\n')}`);
  }
  return { spec, document, warnings: linesOf(name, warnings.slice(0, MOST_SHOWN)) };
}

/** Returns the spec of a text, with its faults and warnings. */
export function readFleetText(text: string, env: NodeJS.ProcessEnv): FleetText {
  const counter = new LineCounter();
  const unread = (faults: { offset: number; message: string }[]): FleetText => ({
    spec: null,
    document: null,
    faults: inOrder(
      faults.map(({ offset, message }) => ({ ...placeAt(counter, offset), path: '', text: message })),
    ),
    warnings: [],
  });
  const tree = parseDocument(text, { lineCounter: counter, prettyErrors: false, merge: true });
  if (tree.errors.length > 0)
    return unread(tree.errors.map(({ pos: [offset], message }) => ({ offset, message })));
  let document: unknown;
  try {
    document = tree.toJS();
  } catch (error) {
    // Aliases of aliases may expand to more than any memory holds.
    return unread([{ offset: 0, message: (error as Error).message }]);
  }
  const placed = (remarks: Remark[]) => inOrder(remarks.map((remark) => findingOf(remark, tree, counter)));
  const parsed = FleetSpec.safeParse(document ?? {}, { error: schemaWords });
  const issues = parsed.success ? [] : remarksOf(parsed.error.issues, document);
  const environment = environmentRemarks(document);
  const unnamed = protoIn(document);
  if (unnamed !== null) issues.push({ path: unnamed, of: 'key', text: 'is no name of anything' });
  const isReported = (fault: Remark) => issues.some(({ path }) => pathText(path) === pathText(fault.path));
  const faults = placed([...issues, ...environment.faults.filter((fault) => !isReported(fault))]);
  const warnings = placed([
    ...environment.warnings,
    ...secretRemarks(document, env),
    ...(parsed.success ? impossible(parsed.data) : []),
  ]);
  return { spec: parsed.success && faults.length === 0 ? parsed.data : null, document, faults, warnings };
}

/** Returns findings as lines that editors and terminals turn into links. */
function linesOf(name: string, findings: readonly Finding[]): string[] {
  return findings.map(({ line, column, path, text }) =>
    [`${name}:${line}:${column}`, ...(path ? [path] : []), text].join(': '),
  );
}

function findingOf({ path, of, text }: Remark, tree: Document, counter: LineCounter): Finding {
  return { ...placeAt(counter, offsetOf(tree, path, of)), path: pathText(path), text };
}

/** Returns the position of a value, or of its key; if neither exists, the position of the nearest thing around it. */
function offsetOf(tree: Document, path: readonly PropertyKey[], of: Remark['of']): number {
  let node = tree.contents as Node | null;
  let key: Node | null = null;
  for (const part of path) {
    const held: unknown = isAlias(node) ? node.resolve(tree) : node;
    const [nextKey, next] = childOf(held, part);
    if (nextKey === null && next === null) return startOf(key ?? node);
    [key, node] = [nextKey, next];
  }
  return startOf(of === 'key' ? (key ?? node) : (node ?? key));
}

function childOf(node: unknown, part: PropertyKey): [key: Node | null, value: Node | null] {
  if (isSeq(node)) return [null, (node.items[Number(part)] as Node | undefined) ?? null];
  if (!isMap(node)) return [null, null];
  const pair = node.items.find(({ key }) => isScalar(key) && String(key.value) === String(part));
  return pair ? [pair.key as Node, pair.value as Node | null] : [null, null];
}

function startOf(node: Node | null): number {
  return node?.range?.[0] ?? 0;
}

function placeAt(counter: LineCounter, offset: number): { line: number; column: number } {
  const { line, col } = counter.linePos(offset);
  // An empty text has no lines, so line and column are at least 1.
  return { line: Math.max(1, line), column: Math.max(1, col) };
}

function inOrder(findings: Finding[]): Finding[] {
  return findings.sort((a, b) => a.line - b.line || a.column - b.column);
}

function pathText(path: readonly PropertyKey[]): string {
  return path.reduce<string>((text, part) => {
    if (typeof part === 'number') return `${text}[${part}]`;
    return text ? `${text}.${String(part)}` : String(part);
  }, '');
}
