import { createHash } from 'node:crypto';
import type { NewJob } from '../client/index.ts';
import { UserError } from '../process/index.ts';
import { isObject, keepJson, keepMembers, withMembers, writeJson } from '../protocol/index.ts';
import { jsonLines } from './json-files.ts';

/** Fields of a job that the command's options set where its line does not. */
export interface JobDefaults {
  jobType: string;
  configId?: string;
  model?: string;
}

/**
 * Reads a file of jobs once before anything is submitted: a mistake in its last line should not cost a night. Each
 * line is a job as for `POST /api/jobs`, or only its payload.
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
    throw new UserError(`${file} cannot be read: ${(error as Error).message}`);
  }
  if (jobs === 0) throw new UserError(`${file} holds no jobs: each line should be a JSON object.`);
  return { jobs, sha256: hash.digest('hex') };
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

/** Returns a payload that names a model, and keeps its JSON. */
export function withModel(payload: object, model: string | undefined): object {
  if (!model || 'model' in payload) return payload;
  return keepJson({ ...payload, model }, withMembers(writeJson(payload), { model: JSON.stringify(model) }));
}
