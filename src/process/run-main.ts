import { readFileSync } from 'node:fs';
import { SourceMap } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { EXIT, UserError } from './exit-codes.ts';
import { useProxies } from './outgoing.ts';
import { secretHider } from './secrets.ts';

/**
 * Runs a program, which uses the proxies of its environment, and exits at once with the program's code, since a stuck
 * child must not keep the process alive. For a UserError it prints the message alone, for any other error the stack.
 */
export async function runMain(run: () => Promise<number>): Promise<never> {
  process.once('uncaughtException', endWith);
  try {
    await useProxies(process.env);
    process.exit(await run());
  } catch (error) {
    endWith(error);
  }
}

/** Prints what was thrown, and exits with its exit code. */
export function endWith(error: unknown): never {
  const isMistake = error instanceof UserError;
  const text = isMistake ? error.message : sourceStack(error);
  process.stderr.write(`${secretHider(process.env)(text)}\n`);
  process.exit(isMistake ? error.exitCode : EXIT.unexpected);
}

/** A place in a bundle, as a frame of a stack names it. */
const PLACE = /(file:\/\/\/[^\s()]+\.js):(\d+):(\d+)/g;

/**
 * Returns what was thrown for people to read: its stack, with places in the sources instead of those in a bundle that
 * has its map beside it. Node's own `--enable-source-maps` reads every map at the start, which takes a sixth of a
 * worker's start.
 */
export function sourceStack(thrown: unknown): string {
  if (!(thrown instanceof Error)) return `thrown: ${String(thrown)}`;
  const maps = new Map<string, SourceMap>();
  return (thrown.stack ?? thrown.message).replace(
    PLACE,
    (place, url: string, line: string, column: string) => {
      try {
        const path = fileURLToPath(url);
        const map = maps.get(path) ?? mapBeside(path);
        maps.set(path, map);
        return placeInSource(path, map, Number(line), Number(column));
      } catch {
        return place;
      }
    },
  );
}

/** Reads the map beside a bundle. @throws Error if there is none */
function mapBeside(path: string): SourceMap {
  return new SourceMap(JSON.parse(readFileSync(`${path}.map`, 'utf8')));
}

/** Returns a place in the sources. @throws Error if the map lacks it */
function placeInSource(path: string, map: SourceMap, line: number, column: number): string {
  const origin = map.findOrigin(line, column);
  if (!('fileName' in origin) || !origin.fileName) throw new Error('not from a source of ours');
  return `${join(dirname(path), origin.fileName)}:${origin.lineNumber}:${origin.columnNumber}`;
}
