import { readFile } from 'node:fs/promises';
import { buffer } from 'node:stream/consumers';
import { JobClient, JobConnection, type JobEnd, type NewJob, QueueError } from '../client/index.ts';
import { reasonOf } from '../process/http.ts';
import { EXIT, endSignals, UserError } from '../process/index.ts';
import { isSettled, type JobView, keepJson, printable, writeJson } from '../protocol/index.ts';
import { refusal } from './ask-queue.ts';
import { indentedJson, readJobs, surveyFile, textOfJson, unreadable, withModel } from './json-files.ts';
import { Progress } from './progress.ts';
import { openResults, type ResultLine, type Results } from './results-file.ts';
import { print, printNote } from './terminal.ts';
import { traceText, WaitingLine } from './trace.ts';

/** The interval at which the command asks what a job waits for, s. */
const LOOK_SECONDS = 5;

interface SubmitOptions {
  url: string;
  token?: string;
  model?: string;
  jobType: string;
  configId?: string;
  file?: string;
  /** The time to wait for the result, s; 0 prints the job and returns. */
  wait: number;
  /** Whether only the text of the answer is printed. */
  text?: boolean;
  /** Whether the job's ledger is printed on stderr. */
  trace?: boolean;
}

/**
 * Runs `worker-vllm submit`: stores one job and prints its result as JSON.
 * @returns the exit code, which is not 0 when the job failed, or did not end in time
 * @throws UserError when the queue cannot be reached or refuses the job
 */
export async function runSubmit(prompt: string | undefined, options: SubmitOptions): Promise<number> {
  const payload = await payloadOf(prompt, options);
  const client = new JobClient({ ...options, retries: 1 });
  try {
    const { jobType: job_type, configId: config_id } = options;
    let job = await client.submit({ job_type, ...(config_id ? { config_id } : {}), payload } as NewJob);
    if (options.wait > 0 && !isSettled(job.state)) job = await waitFor(client, job, options.wait);
    const code = report(job, options);
    if (options.trace) {
      // The answer to a submission does not say what the job waits for.
      const { waiting } = isSettled(job.state) ? job : await client.get(job.id);
      process.stderr.write(traceText(job.id, await client.ledger(job.id), waiting));
    }
    return code;
  } catch (error) {
    throw error instanceof QueueError ? explained(error) : error;
  }
}

/** Waits until the job has settled or the time is over, and prints on stderr what the job waits for. */
async function waitFor(client: JobClient, submitted: JobView, seconds: number): Promise<JobView> {
  const waiting = new WaitingLine(printNote);
  const until = performance.now() + seconds * 1000;
  let job = submitted;
  for (let left = seconds; left > 0 && !isSettled(job.state); left = (until - performance.now()) / 1000) {
    job = await client.wait(job.id, { seconds: Math.min(left, LOOK_SECONDS) });
    waiting.show(job.waiting);
  }
  return job;
}

/** Returns the error of a command whose client failed. */
function explained(error: QueueError): UserError {
  if (error.status === null) {
    // The client's message has only a code; people who repair a proxy or a certificate need the reason.
    const said = error.cause
      ? error.message.replace(/\(.*\)\.$/s, () => `(${reasonOf(error.cause)}).`)
      : error.message;
    return new UserError(`${said} Start one with "npx worker-vllm up", or give its --url.`);
  }
  return refusal(error.status, error.message, 'submit');
}

function report(job: JobView, options: SubmitOptions): number {
  if (job.state === 'succeeded') {
    const answer = options.text ? textIn(job.result) : null;
    if (options.text && answer === null) {
      printNote(`The result of job ${job.id} has no text; all of it:`);
    }
    const shown = `${answer ?? indentedJson(writeJson(job.result))}\n`;
    // A file or another program gets the result unchanged.
    process.stdout.write(process.stdout.isTTY ? printable(shown) : shown);
    return EXIT.ok;
  }
  const look = `${options.url}/api/jobs/${job.id}`;
  if (job.state === 'pending' || job.state === 'leased') {
    print(indentedJson(writeJson(job)));
    if (options.wait === 0) return EXIT.ok;
    const why =
      job.state === 'pending'
        ? `No worker has taken job ${job.id}`
        : `Worker ${job.worker_id} is still at job ${job.id}`;
    printNote(`${why} after ${options.wait} s. Look again: ${look}`);
    return EXIT.unexpected;
  }
  printNote(`Job ${job.id} ${job.state}: ${job.error?.message ?? 'no reason was given'}`);
  for (const error of job.attempt_errors) {
    printNote(`  attempt ${error.attempt} on ${error.worker_id ?? 'no worker'}: ${error.message}`);
  }
  return EXIT.unexpected;
}

/** The hint about the form of a payload. */
const PAYLOAD_HINT = 'A payload is one such as {"messages": [{"role": "user", "content": "Say hello."}]}.';

/** Returns the text in a result, of a chat, a completion or a worker; null: there is none. */
function textIn(result: unknown): string | null {
  const { choices, text, completion } = Object(result) as {
    choices?: { message?: { content?: unknown }; text?: unknown }[];
    text?: unknown;
    completion?: unknown;
  };
  const found = choices?.[0]?.message?.content ?? choices?.[0]?.text ?? text;
  if (typeof found === 'string') return found;
  return completion === undefined ? null : textIn(completion);
}

/** Returns the payload from the prompt, else the file, else stdin; `--model` fills in what they leave out. */
async function payloadOf(prompt: string | undefined, options: SubmitOptions): Promise<object> {
  const model = options.model ? { model: options.model } : {};
  if (prompt !== undefined) return { messages: [{ role: 'user', content: prompt }], ...model };
  if (!options.file && process.stdin.isTTY) {
    throw new UserError('What is to be asked? Give a prompt, or the payload as JSON by --file or on stdin.');
  }
  const source = options.file ?? 'stdin';
  const bytes = await (options.file ? readFile(options.file) : buffer(process.stdin)).catch((error) => {
    throw unreadable(source, error, PAYLOAD_HINT);
  });
  const given = textOfJson(bytes, source);
  let parsed: unknown;
  try {
    parsed = JSON.parse(given);
  } catch (error) {
    throw new UserError(`${source} is not JSON: ${(error as Error).message}. ${PAYLOAD_HINT}`);
  }
  if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed)) {
    throw new UserError(`${source} is no JSON object. ${PAYLOAD_HINT}`);
  }
  return withModel(keepJson(parsed, given), options.model);
}

/** The interval at which the command asks what the jobs wait for, ms. */
const LOOK_MS = 3000;

interface SubmitFileOptions {
  url: string;
  token?: string;
  model?: string;
  jobType: string;
  configId?: string;
  /** The file for the results; left out: a file beside the input. */
  output?: string;
  /** The most jobs in flight at a time. */
  inFlight: number;
}

/**
 * Runs `worker-vllm submit FILE.jsonl`: stores a job for each line and writes each result as its job ends. The same
 * command continues where an earlier one stopped: job ids are stored beside the results, so no line runs twice.
 * @returns the exit code, which is not 0 when a job failed, or when the command was stopped before the end
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
