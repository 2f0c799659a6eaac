import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import type { NewJob } from '../client/index.ts';
import { UserError } from '../process/index.ts';
import {
  isObject,
  JsonFault,
  keepJson,
  keepMembers,
  outsideStrings,
  utf8Text,
  withMembers,
  writeJson,
} from '../protocol/index.ts';

/**
 * JSON in files that users give to commands must be valid UTF-8, since a job whose characters were changed would still
 * succeed.
 */

const LINE_FEED = 0x0a;

/**
 * Returns the text of JSON that a user gave, without a byte order mark.
 * @param source the name of the JSON in messages
 * @throws UserError that names the encoding, or the first byte that is not UTF-8
 */
export function textOfJson(bytes: Uint8Array, source: string): string {
  try {
    return utf8Text(bytes);
  } catch (error) {
    if (!(error instanceof JsonFault)) throw error;
    throw new UserError(`${source}: ${error.message.replace('The body', 'this')}`);
  }
}

/**
 * Yields the lines of a file with their numbers, from 1; empty lines are left out.
 * @param seen called with every piece of the file
 * @throws UserError as `textOfJson`
 */
export async function* jsonLines(
  file: string,
  seen?: (piece: Uint8Array) => unknown,
): AsyncGenerator<{ line: number; text: string }> {
  let line = 0;
  let begun: Uint8Array[] = [];
  const next = (end: Uint8Array) => {
    line += 1;
    const text = textOfJson(Buffer.concat([...begun, end]), `${file}, line ${line}`);
    begun = [];
    return { line, text: text.replace(/\r$/, '') };
  };
  for await (const piece of createReadStream(file) as AsyncIterable<Buffer>) {
    seen?.(piece);
    let at = 0;
    for (let end = piece.indexOf(LINE_FEED); end >= 0; end = piece.indexOf(LINE_FEED, at)) {
      const read = next(piece.subarray(at, end));
      if (read.text.trim() !== '') yield read;
      at = end + 1;
    }
    begun.push(piece.subarray(at));
  }
  const read = next(new Uint8Array());
  if (read.text.trim() !== '') yield read;
}

/** Returns JSON for people, indented as by `JSON.stringify`; its numbers and texts stay as they are written. */
export function indentedJson(json: string): string {
  const compact = outsideStrings(json, (part) => part.replaceAll(/\s+/g, ''));
  let depth = 0;
  return outsideStrings(compact, (part) =>
    part.replaceAll(/\{\}|\[\]|[{[\]},:]/g, (mark) => {
      if (mark === ':') return ': ';
      if (mark.length === 2) return mark;
      if (mark === ',') return `,\n${'  '.repeat(depth)}`;
      depth += mark === '{' || mark === '[' ? 1 : -1;
      const line = `\n${'  '.repeat(depth)}`;
      return mark === '{' || mark === '[' ? mark + line : line + mark;
    }),
  );
}

/** The fields of a job that the command's options set if its line does not. */
interface JobDefaults {
  jobType: string;
  configId?: string;
  model?: string;
}

/**
 * Reads a file of jobs once before anything is submitted, since a mistake in its last line should not cost a night.
 * Each line is a job as for `POST /api/jobs`, or only its payload.
 * @throws UserError when the file cannot be read, or a line is not a JSON object
 */
export async function surveyFile(file: string): Promise<{ jobs: number; sha256: string }> {
  const hash = createHash('sha256');
  let jobs = 0;
  try {
    for await (const { line, text } of jsonLines(file)) {
      parseLine(file, line, text);
      hash.update(`${line} ${text}\n`);
      jobs += 1;
    }
  } catch (error) {
    if (error instanceof UserError) throw error;
    throw unreadable(file, error, 'Each line is a job, or a payload such as {"messages": [...]}.');
  }
  if (jobs === 0) throw new UserError(`${file} holds no jobs: each line should be a JSON object.`);
  return { jobs, sha256: hash.digest('hex') };
}

/** Returns the error for a file that cannot be read. @param form a sentence about what such a file holds */
export function unreadable(file: string, error: unknown, form: string): UserError {
  const { code, message } = error as NodeJS.ErrnoException;
  const why = code === 'ENOENT' ? 'there is no such file' : message;
  return new UserError(`${file} cannot be read: ${why}. ${form}`);
}

/** Yields the jobs of a file with the numbers of their lines, from 1. */
export async function* readJobs(
  file: string,
  defaults: JobDefaults,
): AsyncGenerator<{ line: number; job: NewJob }> {
  for await (const { line, text } of jsonLines(file)) {
    yield { line, job: jobOf(parseLine(file, line, text), defaults) };
  }
}

function parseLine(file: string, line: number, text: string): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new UserError(`${file}, line ${line}: not JSON (${(error as Error).message}).`);
  }
  if (isObject(value)) {
    keepMembers(value, Buffer.from(text), ['payload']);
    return keepJson(value, text);
  }
  throw new UserError(`${file}, line ${line}: expected a JSON object such as {"messages": [...]}.`);
}

function jobOf(value: Record<string, unknown>, { jobType, configId, model }: JobDefaults): NewJob {
  const isJob = typeof value.payload === 'object' && value.payload !== null;
  const { payload, ...fields } = isJob ? (value as { payload: object }) : { payload: value };
  return {
    job_type: jobType,
    ...(configId ? { config_id: configId } : {}),
    ...fields,
    payload: withModel(payload, model),
  } as NewJob;
}

/** Returns a payload that names a model, with its JSON preserved. */
export function withModel(payload: object, model: string | undefined): object {
  if (!model || 'model' in payload) return payload;
  return keepJson({ ...payload, model }, withMembers(writeJson(payload), { model: JSON.stringify(model) }));
}
