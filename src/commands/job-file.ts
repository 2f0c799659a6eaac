import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import type { NewJob } from '../client/index.ts';
import { UserError } from '../process/index.ts';
import { isObject } from '../protocol/fields.ts';

/** Fields of a job that the command's options set where its line does not. */
export interface JobDefaults {
  jobType: string;
  configId?: string;
  model?: string;
}

/** Lines of JSON, each a job as for `POST /api/jobs`, or only its payload. Empty lines are left out. */
async function* linesOf(file: string): AsyncGenerator<{ line: number; text: string }> {
  const lines = createInterface({
    input: createReadStream(file, 'utf8'),
    crlfDelay: Number.POSITIVE_INFINITY,
  });
  let line = 0;
  for await (const text of lines) {
    line += 1;
    if (text.trim() !== '') yield { line, text };
  }
}

/**
 * Reads a file once, before anything is submitted: a mistake in its last line should not cost a night.
 * @throws UserError when it cannot be read, or a line is no JSON object
 */
export async function surveyFile(file: string): Promise<{ jobs: number; sha256: string }> {
  const hash = createHash('sha256');
  let jobs = 0;
  try {
    for await (const { line, text } of linesOf(file)) {
      parseLine(file, line, text);
      hash.update(`${line} ${text}\n`);
      jobs += 1;
    }
  } catch (error) {
    if (error instanceof UserError) throw error;
    throw new UserError(`${file} cannot be read: ${(error as Error).message}`);
  }
  if (jobs === 0) throw new UserError(`${file} holds no jobs: each line should be a JSON object.`);
  return { jobs, sha256: hash.digest('hex') };
}

/** The jobs of a file with the numbers of their lines, from 1. */
export async function* readJobs(
  file: string,
  defaults: JobDefaults,
): AsyncGenerator<{ line: number; job: NewJob }> {
  for await (const { line, text } of linesOf(file)) {
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
  if (isObject(value)) return value;
  throw new UserError(`${file}, line ${line}: expected a JSON object such as {"messages": [...]}.`);
}

function jobOf(value: Record<string, unknown>, { jobType, configId, model }: JobDefaults): NewJob {
  const isJob = typeof value.payload === 'object' && value.payload !== null;
  const { payload, ...fields } = isJob ? (value as { payload: object }) : { payload: value };
  return {
    job_type: jobType,
    ...(configId ? { config_id: configId } : {}),
    ...fields,
    payload: { ...(model ? { model } : {}), ...payload },
  } as NewJob;
}
