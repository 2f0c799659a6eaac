import { Agent, request } from 'undici';

/**
 * The least that does a worker's work in a RunPod endpoint: takes jobs, asks the engine, posts what it answers. It keeps
 * nothing, tries nothing twice, pings nobody and says nothing, so what a worker costs beyond it is what its rules cost.
 * For jobs whose answer is whole.
 */
const { ENGINE_URL, MAX_CONCURRENCY, RUNPOD_AI_API_KEY, RUNPOD_POD_ID = '', ...env } = process.env;
const dispatcher = new Agent({ headersTimeout: 90_000 });
const headers = { authorization: RUNPOD_AI_API_KEY };
let free = Number(MAX_CONCURRENCY);
let wake = () => {};

interface Job {
  id: string;
  input: { prompt: string; sampling_params: object };
}

async function post(
  template: string | undefined,
  { id }: Job,
  isStream: boolean,
  body: object,
): Promise<void> {
  const url = template!.replace('$RUNPOD_POD_ID', RUNPOD_POD_ID).replace('$ID', id);
  const answer = await request(`${url}&isStream=${isStream}`, {
    dispatcher,
    method: 'POST',
    headers: {
      ...headers,
      'content-type': 'application/x-www-form-urlencoded',
      charset: 'utf-8',
      'x-request-id': id,
    },
    body: JSON.stringify(body),
  });
  await answer.body.dump();
}

async function run(job: Job): Promise<void> {
  const { prompt, sampling_params } = job.input;
  const answer = await request(`${ENGINE_URL}/v1/completions`, {
    dispatcher,
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'tiny', prompt, ...sampling_params }),
  });
  const output = await answer.body.json();
  await post(env.RUNPOD_WEBHOOK_POST_STREAM, job, false, { output });
  await post(env.RUNPOD_WEBHOOK_POST_OUTPUT, job, true, { output: [output] });
  free += 1;
  wake();
}

const take = env.RUNPOD_WEBHOOK_GET_JOB!.replace('$ID', RUNPOD_POD_ID);
const takeBatch = take.replace('/job-take/', '/job-take-batch/');
for (;;) {
  if (free === 0) {
    await new Promise<void>((resolve) => {
      wake = resolve;
    });
  }
  const answer = await request(`${takeBatch}&batch_size=${free}&job_in_progress=0`, { dispatcher, headers });
  if (answer.statusCode === 204) {
    await answer.body.dump();
    continue;
  }
  const jobs = (await answer.body.json()) as Job[];
  free -= jobs.length;
  for (const job of jobs) void run(job);
}
