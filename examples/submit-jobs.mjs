// Many stored jobs over one connection: results as the jobs end, whatever breaks meanwhile.
import { JobConnection } from 'worker-vllm/client';

const jobs = new JobConnection({
  url: process.env.WORKER_VLLM_URL ?? 'http://127.0.0.1:8788',
  token: process.env.WORKER_VLLM_TOKEN,
  inFlight: 64,
});

const run = `example-${process.pid}-${Date.now()}`;
function* questions() {
  for (const [n, country] of ['France', 'Japan', 'Peru', 'Kenya', 'Norway'].entries()) {
    const messages = [{ role: 'user', content: `What is the capital of ${country}?` }];
    // An id of its own: should this program be started again with it, the job is found and not run twice.
    yield { id: `${run}.${n}`, job_type: 'chat_completion', payload: { messages, max_tokens: 16 } };
  }
}

for await (const { id, job, error } of jobs.results(questions())) {
  const answer = job?.result?.completion.choices[0].message.content.replaceAll('\n', ' ');
  console.log(id, job?.state ?? 'rejected', answer ?? error?.message ?? job?.error?.message);
}
