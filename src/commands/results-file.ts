import { randomBytes } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { type FileHandle, open, readFile, rm, stat, truncate, writeFile } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { UserError } from '../process/index.ts';
import { writeJsonLine } from '../protocol/index.ts';

/** The numbers of jobs that have ended so far. */
export interface Counts {
  succeeded: number;
  failed: number;
}

/** The result of one job. */
export interface ResultLine {
  /** The job's line in the input, from 1. */
  line: number;
  id: string;
  /** The job's state in the queue, or `rejected` if the queue did not accept it. */
  state: string;
  result: unknown;
  error: unknown;
}

/** The note beside the results until they are complete. */
interface Run {
  /** The prefix of the ids of the run's jobs. */
  run: string;
  /** The hash of the lines that are submitted. */
  sha256: string;
}

/**
 * Opens a file of results, one line of JSON each, in the order in which jobs end. Until all are there, a file beside it
 * (`RESULTS.run`) holds the ids of the run.
 * @param sha256 the hash of the file's jobs
 * @throws UserError when the file holds results of another run
 */
export async function openResults(file: string, sha256: string, output?: string): Promise<Results> {
  const path = output ?? `${file.replace(/\.(jsonl|ndjson)$/i, '')}.results.jsonl`;
  const runPath = `${path}.run`;
  const earlier = await readRun(runPath);
  if (earlier === null && (await exists(path))) {
    throw new UserError(`${path} exists and is complete. Move it away, or name another file with --output.`);
  }
  if (earlier !== null && earlier.sha256 !== sha256) {
    throw new UserError(
      `${path} holds results of another version of ${file}. Name another file with --output, or delete ${path} and ${runPath} to begin anew.`,
    );
  }
  const run = earlier ?? { run: randomBytes(8).toString('hex'), sha256 };
  if (earlier === null) await writeFile(runPath, `${JSON.stringify(run)}\n`, { flag: 'wx' });
  const results = new Results(path, runPath, run.run);
  await results.open();
  return results;
}

export class Results {
  readonly path: string;
  readonly run: string;
  /** The lines of the input that have a result. */
  readonly lines = new Set<number>();
  readonly counts: Counts = { succeeded: 0, failed: 0 };
  readonly #runPath: string;
  #file: FileHandle | null = null;

  constructor(path: string, runPath: string, run: string) {
    this.path = path;
    this.run = run;
    this.#runPath = runPath;
  }

  /** Reads the results of an earlier command, and removes a line that it could not finish. */
  async open(): Promise<void> {
    if (await exists(this.path)) await truncate(this.path, await this.#readBack());
    this.#file = await open(this.path, 'a');
  }

  async write(result: ResultLine): Promise<void> {
    await this.#file?.appendFile(`${writeJsonLine(result)}\n`);
    this.#count(result);
  }

  async close(): Promise<void> {
    await this.#file?.close();
    this.#file = null;
  }

  /** Removes the note: every line has its result. */
  async complete(): Promise<void> {
    await rm(this.#runPath, { force: true });
  }

  /** Reads the results of an earlier command. @returns the bytes of the lines that are whole */
  async #readBack(): Promise<number> {
    let bytes = 0;
    for await (const text of createInterface({ input: createReadStream(this.path, 'utf8') })) {
      let result: ResultLine;
      try {
        result = JSON.parse(text);
      } catch {
        break;
      }
      this.#count(result);
      bytes += Buffer.byteLength(text) + 1;
    }
    const { size } = await stat(this.path);
    if (bytes <= size) return bytes;
    // The last line is whole except for its line feed.
    await writeFile(this.path, '\n', { flag: 'a' });
    return bytes;
  }

  #count({ line, state }: ResultLine): void {
    this.lines.add(line);
    this.counts[state === 'succeeded' ? 'succeeded' : 'failed'] += 1;
  }
}

async function readRun(path: string): Promise<Run | null> {
  try {
    return JSON.parse(await readFile(path, 'utf8')) as Run;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw new UserError(`${path} cannot be read (${(error as Error).message}). Delete it to begin anew.`);
  }
}

async function exists(path: string): Promise<boolean> {
  return await stat(path).then(
    () => true,
    () => false,
  );
}
