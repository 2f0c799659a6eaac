import type { Batch } from '../../src/batches/batch.ts';
import { findFile } from '../../src/files/file-index.ts';
import { isSettled, type JobView, lineJobId } from '../../src/protocol/index.ts';
import { customId, placeOf } from './batch-owner.ts';
import type { BatchPlan } from './batch-plan.ts';
import type { BatchesHost } from './batches-host.ts';
import type { Violation } from './oracle.ts';

/** A line of an output or error file. */
interface Written {
  file: 'output' | 'error';
  custom_id: string;
  response: { status_code: number; body: { id?: string; usage?: { completion_tokens: number } } } | null;
  error: { code: string } | null;
}

const NOT_RUN = ['batch_cancelled', 'batch_expired'];

/** Jobs of all its lines that the queue may know. */
export function lineJobs({ id, lines }: BatchPlan): string[] {
  return Array.from({ length: lines }, (_, index) => lineJobId(id, placeOf(index + 1)));
}

/**
 * What is wrong with a batch that is over: its files are compared with its counts and with what the queue knows.
 * @param jobOf null: the queue knows no such job @returns null: nothing is
 */
export function batchProblem(
  plan: BatchPlan,
  batch: Batch,
  host: BatchesHost,
  jobOf: (id: string) => JobView | null,
): Violation | null {
  const says = (promise: string, message: string) => ({ promise, message: `${batch.id}: ${message}` });
  const jobs = new Map(lineJobs(plan).map((id, index) => [customId(index + 1), jobOf(id)]));
  const open = [...jobs.values()].find((job) => job !== null && !isSettled(job.state));
  if (open) return says('no job outlives its batch', `${open.id} is ${open.state}`);

  const written = (['output', 'error'] as const).flatMap((file) => linesOf(host, batch, file));
  if (batch.status === 'failed' || batch.total === 0) {
    const isDue = batch.status === 'failed' ? isFaultRight(plan, batch) : batch.status !== 'completed';
    if (!isDue)
      return says('a wrong line fails its batch', `${batch.status} ${JSON.stringify(batch.faults)}`);
    if (written.length > 0) return says('a line is written once', 'there are files, and nothing was run');
    return null;
  }
  if (plan.badLine !== null && !(plan.badLine.kind === 'twice' && plan.badLine.number === 1))
    return says('a wrong line fails its batch', `it is ${batch.status}`);
  for (const [id, job] of jobs) {
    const lines = written.filter(({ custom_id }) => custom_id === id);
    if (lines.length !== 1) return says('a line is written once', `${id} is there ${lines.length} times`);
    const problem = lineProblem(lines[0]!, job);
    if (problem !== null) return says('a line is what became of its job', `${id}: ${problem}`);
  }
  const problem = countProblem(batch, written) ?? listProblem(batch, host);
  return problem === null ? null : says('a batch tells what its files have', problem);
}

function linesOf(host: BatchesHost, batch: Batch, file: 'output' | 'error'): Written[] {
  const text = host.files.text(file === 'output' ? batch.output_file_id : batch.error_file_id) ?? '';
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => ({ ...JSON.parse(line), file }));
}

function isFaultRight({ badLine }: BatchPlan, { faults }: Batch): boolean {
  return badLine !== null && faults.length === 1 && faults[0]!.line === placeOf(badLine.number);
}

function lineProblem({ file, response, error }: Written, job: JobView | null): string | null {
  const state = job?.state ?? 'unknown';
  if (file === 'output') {
    if (state !== 'succeeded') return `an answer of a job that is ${state}`;
    return saidBy(job).id === response?.body.id ? null : 'another answer than its job has';
  }
  if (response === null && NOT_RUN.includes(error?.code ?? '')) {
    return state === 'succeeded' || state === 'failed' ? `${error?.code}, and its job ${state}` : null;
  }
  return state === 'failed' ? null : `an error of a job that is ${state}`;
}

/** Every answer of an engine has an id of its own. */
function saidBy(job: JobView | null): { id?: string } {
  const { response, completion } = (job?.result ?? {}) as Record<
    string,
    { id?: string; body?: { id: string } }
  >;
  return response?.body ?? completion ?? {};
}

function countProblem(batch: Batch, written: readonly Written[]): string | null {
  const output = written.filter(({ file }) => file === 'output');
  const tried = written.filter(({ file, error }) => file === 'error' && !NOT_RUN.includes(error?.code ?? ''));
  if (batch.total !== written.length) return `${batch.total} lines, ${written.length} are written`;
  if (batch.completed !== output.length) return `${batch.completed} completed, ${output.length} are written`;
  if (batch.failed !== tried.length) return `${batch.failed} failed, ${tried.length} are written`;
  if (batch.status === 'completed' && batch.output_lines + batch.error_lines !== batch.total)
    return 'it completed before all lines were written';
  const tokens = output.reduce(
    (sum, { response }) => sum + (response?.body.usage?.completion_tokens ?? 0),
    0,
  );
  return batch.usage.output_tokens === tokens ? null : `${batch.usage.output_tokens} tokens, not ${tokens}`;
}

/** Files with lines are listed as long as they are; others do not exist. */
function listProblem(batch: Batch, { files, disk }: BatchesHost): string | null {
  for (const id of [batch.output_file_id, batch.error_file_id]) {
    const bytes = Buffer.byteLength(files.text(id) ?? '');
    const listed = findFile(disk, id, null, batch.created_at)?.bytes ?? 0;
    if (listed !== bytes) return `${id} is listed with ${listed} bytes and has ${bytes}`;
  }
  return null;
}
