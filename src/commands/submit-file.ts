import { JobClient, JobConnection, type JobEnd, type NewJob, QueueError } from '../client/index.ts';
import { EXIT, endSignals, UserError } from '../process/index.ts';
import { readJobs, surveyFile } from './job-file.ts';
import { printNote } from './print.ts';
import { Progress } from './progress.ts';
import { openResults, type ResultLine, type Results } from './results-file.ts';
import { explained } from './submit.ts';
import { WaitingLine } from './waiting-line.ts';

/** Every so many ms the command asks what the jobs wait for. */
const LOOK_MS = 3000;

export interface SubmitFileOptions {
  url: string;
  token?: string;
  model?: string;
  jobType: string;
  configId?: string;
  /** The file for the results; beside the input where left out. */
  output?: string;
  /** The number of jobs in flight at a time. */
  inFlight: number;
}

/**
 * Runs `worker-vllm submit FILE.jsonl`: stores a job a line and writes each result as its job ends. The same command
 * goes on where an earlier one stopped: job ids are kept beside the results, so no line runs twice.
 * @returns the exit code: not 0 when a job failed, or when the command was stopped before the end
 * @throws UserError when the file cannot be used, or the queue cannot be reached
 */
export async function runSubmitFile(file: string, options: SubmitFileOptions): Promise<number> {
  const survey = await surveyFile(file);
  await checkQueue(options);
  const results = await openResults(file, survey.sha256, options.output);
  const progress = new Progress(survey.jobs, results.counts, process.stderr);
  if (results.lines.size > 0) progress.say(`${results.lines.size} of ${survey.jobs} lines are done already.`);
  const connection = new JobConnection(options);
  const signals = endSignals();
  const stopped = signals.first.then(() => 'stopped' as const);
  try {
    const ended = await Promise.race([stopped, submitAll(file, options, connection, results, progress)]);
    progress.end();
    if (ended === 'stopped') return stop(connection, file, results, survey.jobs);
  } catch (error) {
    throw error instanceof QueueError ? new UserError(error.message, EXIT.unexpected) : error;
  } finally {
    signals.release();
    await results.close();
  }
  await results.complete();
  const { succeeded, failed } = results.counts;
  printNote(`${succeeded} succeeded, ${failed} failed. The results are in ${results.path}`);
  return failed === 0 ? EXIT.ok : EXIT.unexpected;
}

async function submitAll(
  file: string,
  options: SubmitFileOptions,
  connection: JobConnection,
  results: Results,
  progress: Progress,
): Promise<'done'> {
  const lineOf = (id: string) => Number(id.slice(id.lastIndexOf('.') + 1));
  const open = new Set<string>();
  const stopTelling = tellWaiting(options, open, progress);
  async function* jobs(): AsyncGenerator<NewJob> {
    for await (const { line, job } of readJobs(file, options)) {
      if (results.lines.has(line)) continue;
      const id = `${results.run}.${line}`;
      open.add(id);
      yield { ...job, id };
    }
  }
  try {
    for await (const end of connection.results(jobs())) {
      open.delete(end.id);
      await results.write(resultOf(lineOf(end.id), end));
      progress.show(results.counts);
    }
  } finally {
    stopTelling();
  }
  return 'done';
}

/** Prints what the oldest job that has not ended waits for. @returns a function that ends that */
function tellWaiting(
  { url, token }: SubmitFileOptions,
  open: ReadonlySet<string>,
  progress: Progress,
): () => void {
  const client = new JobClient({ url, token, retries: 0 });
  const waiting = new WaitingLine((text) => progress.say(text));
  const look = async () => {
    const [id] = open;
    if (id !== undefined) waiting.show((await client.get(id)).waiting);
  };
  // The queue may be away, or not have the job yet: the connection handles both.
  const timer = setInterval(() => void look().catch(() => {}), LOOK_MS);
  return () => clearInterval(timer);
}

function resultOf(line: number, end: JobEnd): ResultLine {
  if ('error' in end) {
    const { message, code, status } = end.error;
    return { line, id: end.id, state: 'rejected', result: null, error: { message, code, status } };
  }
  const { id, state, result, error } = end.job;
  return { line, id, state, result, error };
}

function stop(connection: JobConnection, file: string, results: Results, jobs: number): number {
  connection.close();
  printNote(
    `Stopped with ${results.lines.size} of ${jobs} lines done; jobs that the queue has go on there. To go on: worker-vllm submit ${file}`,
  );
  return EXIT.forced;
}

/** Checks the queue first: a connection dials for ever, so errors that show at once are reported before it does. */
async function checkQueue({ url, token }: SubmitFileOptions): Promise<void> {
  try {
    await new JobClient({ url, token, retries: 1 }).get('-');
  } catch (error) {
    if ((error as QueueError).status !== 404) throw explained(error as QueueError);
  }
}
