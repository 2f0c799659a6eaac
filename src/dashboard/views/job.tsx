import { useEffect, useRef, useState } from 'preact/hooks';
import type { JobView as JobFields, LedgerStep } from '../../protocol/jobs.ts';
import { type RequestRecord, tokensPerSecond } from '../../protocol/request-record.ts';
import * as format from '../../show/format.ts';
import { timelineOf } from '../../show/timeline.ts';
import { ApiFailure, ask } from '../api.ts';
import { now } from '../clock.ts';
import { Command, CopyButton } from '../controls/action.tsx';
import { Figure } from '../controls/figures.tsx';
import { JobMark, RequestMark } from '../controls/marks.tsx';
import { Age, Time, WaitingFor } from '../controls/time.tsx';
import { WorkerLink } from '../controls/worker-link.tsx';
import { ownFailure, repeat } from '../polled.ts';
import { at, href } from '../router.ts';
import { session } from '../session.ts';
import { EditAndRun, JobActions } from './job-actions.tsx';
import { attemptsOf, between, isSettled, ms } from './job-columns.tsx';
import { JobContents } from './job-contents.tsx';
import { TimelineChart } from './job-timeline.tsx';
import { curlCommand } from './snippets.ts';

/** The interval at which a job that has not ended is read, ms. */
const LOOK_MS = 1000;
/**
 * After its end, a live request is read this many times more: its record is listed a moment later, or never if it was
 * left out of a sample.
 */
const LAST_LOOKS = 10;

type Job = Omit<JobFields, 'result'>;

/** Shows one job: what happened to it, and what can be done about it. */
export function JobView({ id }: { id: string }) {
  const [job, setJob] = useState<Job | null>(null);
  const [steps, setSteps] = useState<LedgerStep[] | null>(null);
  /** The record in the list of requests, once the request has ended; a stored job's own fields say more. */
  const [record, setRecord] = useState<RequestRecord | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const [looks, setLooks] = useState(0);
  const [isEdited, setEdited] = useState(false);
  /** The answer that a request with a ledger is not a stored job; the job is then not read again. */
  const notStored = useRef<ApiFailure | null>(null);
  const looksAfterEnd = useRef(0);
  const path = `api/jobs/${encodeURIComponent(id)}`;

  /** Reads the job. @returns whether nothing more will happen to it */
  const look = async (signal: AbortSignal) => {
    const [found, ledger, ended] = await Promise.allSettled([
      notStored.current ? Promise.reject(notStored.current) : ask<Job>(`${path}?result=0`, { signal }),
      ask<{ steps: LedgerStep[] }>(`${path}/ledger`, { signal }),
      ask<{ requests: RequestRecord[] }>(`api/requests?id=${encodeURIComponent(id)}&limit=1`, { signal }),
    ]);
    if (signal.aborted) return true;
    // A request that waited for its answer has a ledger, but is stored nowhere.
    if (ledger.status === 'fulfilled') setSteps(ledger.value.steps);
    if (found.status === 'fulfilled') setJob(found.value);
    else if (ledger.status === 'fulfilled' && isNotFound(found.reason)) notStored.current = found.reason;
    const request =
      ended.status === 'fulfilled' ? ended.value.requests.find((one) => one.id === id) : undefined;
    if (request) setRecord(request);
    const failures = [ledger, found].flatMap((one) => (one.status === 'rejected' ? [one.reason] : []));
    setProblem(failures.length === 2 && !request ? ownFailure(failures[0] as ApiFailure) : null);
    if (found.status === 'fulfilled') return isSettled(found.value.state);
    if (request) return true;
    if (ledger.status === 'rejected') return isUnknown(failures[0]);
    if (!isOver(ledger.value.steps)) return false;
    looksAfterEnd.current += 1;
    return looksAfterEnd.current > LAST_LOOKS;
  };
  useEffect(() => {
    let isDone = false;
    return repeat(LOOK_MS, async (signal) => {
      if (!isDone) isDone = await look(signal);
    });
  }, [id, looks]);

  return (
    <section class="view job" aria-labelledby="job-title">
      <p class="crumbs">
        <a href={href(job ? 'jobs' : 'requests')}>{job ? 'Jobs' : 'Requests'}</a>
      </p>
      <header>
        <h1 id="job-title" data-id={id}>
          <span class="id">{id}</span> <CopyButton text={id} what="the id" />
        </h1>
        {job && <JobMark state={job.state} />}
        {!job && record && <RequestMark outcome={record.outcome} />}
        {job && <JobActions job={job} onChange={() => setLooks(looks + 1)} onEdit={() => setEdited(true)} />}
      </header>
      {job && isEdited && <EditAndRun job={job} onClose={() => setEdited(false)} />}
      {problem && (
        <p class="notice" role="alert">
          {problem}
        </p>
      )}
      {job && <Facts job={job} />}
      {!job && record && <RequestFacts record={record} />}
      {!job && (steps || record) && (
        <p class="notice">
          This request was answered on its connection, so its payload and answer are not stored
          {steps ? '' : ', and its steps only while it is one of the newest'}.
        </p>
      )}
      {job?.waiting && <WaitingFor waiting={job.waiting} />}
      {job?.error && <Failure job={job} />}
      {steps && <Story steps={steps} />}
      {job && <JobContents key={`${id} ${job.state}`} job={job} />}
      <h2>The same from a shell</h2>
      <Command text={curlOf(job ? `${path}?wait=60` : `${path}/ledger`)} />
    </section>
  );
}

function RequestFacts({ record }: { record: RequestRecord }) {
  const { config_id, model, alias, fallback, route, token_name, request_id, worker_id, error_code, error } =
    record;
  return (
    <>
      <dl class="facts">
        <Figure name="Pool">
          <a href={href(`queue?config_id=${encodeURIComponent(config_id)}`)}>{config_id || format.UNKNOWN}</a>
        </Figure>
        <Figure name="Model">{model || format.UNKNOWN}</Figure>
        {alias && <Figure name="Asked for">{fallback ? `${alias}, after ${fallback}` : alias}</Figure>}
        <Figure name="Route">{route}</Figure>
        <Figure name="Token">{token_name ?? format.UNKNOWN}</Figure>
        {request_id && <Figure name="Its caller's id">{request_id}</Figure>}
        <Figure name="Worker">
          <WorkerLink id={worker_id} />
        </Figure>
        <Figure name="Ended">
          <Time at={record.ended_at} />
        </Figure>
        <Figure name="Waited">{format.duration(record.wait_ms)}</Figure>
        <Figure name="First token">{format.duration(record.first_token_ms)}</Figure>
        <Figure name="Total">{format.duration(record.total_ms)}</Figure>
        <Figure name="Tokens in">{format.count(record.tokens_in)}</Figure>
        <Figure name="Cached of these">{format.count(record.cached_tokens)}</Figure>
        <Figure name="Tokens out">{format.count(record.tokens_out)}</Figure>
        <Figure name="Tokens/s">{format.amount(tokensPerSecond(record))}</Figure>
        <Figure name="Attempts">{format.count(record.attempts)}</Figure>
      </dl>
      {error_code && (
        <p class="failure">
          <a class="id" href={href(`requests?error_code=${encodeURIComponent(error_code)}`)}>
            {error_code}
          </a>
          {error && `: ${error}`}
        </p>
      )}
    </>
  );
}

function isNotFound(error: unknown): error is ApiFailure {
  return error instanceof ApiFailure && error.status === 404;
}

function isUnknown(error: unknown): boolean {
  return error instanceof ApiFailure && error.status >= 400 && error.status < 500;
}

function isOver(steps: readonly LedgerStep[]): boolean {
  const ended = steps.findLastIndex(({ step }) =>
    ['settled', 'cancelled', 'expired', 'refused'].includes(step),
  );
  // An answer whose attempt failed may have moved afterwards.
  return ended > steps.findLastIndex(({ step }) => step === 'moved' || step === 'dispatched');
}

function Facts({ job }: { job: Job }) {
  const end = job.settled_at ?? new Date(now.value).toISOString();
  const ran = job.leased_at === null || job.state === 'pending' ? null : between(job.leased_at, end);
  return (
    <dl class="facts">
      <Figure name="Pool">
        <a href={href(`queue?config_id=${encodeURIComponent(job.config_id)}`)}>{job.config_id}</a>
      </Figure>
      <Figure name="Type">{job.job_type}</Figure>
      <Figure name="Token">{job.tenant ?? format.UNKNOWN}</Figure>
      <Figure name="Submitted">
        <Time at={ms(job.created_at)} />{' '}
        <span class="dim">
          (<Age at={ms(job.created_at)} /> ago)
        </span>
      </Figure>
      <Figure name="Waited">
        {format.duration(between(job.created_at, job.state === 'pending' ? end : (job.leased_at ?? end)))}
      </Figure>
      <Figure name="First token after">{format.duration(between(job.created_at, job.first_token_at))}</Figure>
      <Figure name="Ran">{format.duration(ran)}</Figure>
      <Figure name="Attempts">{attemptsOf(job)}</Figure>
      <Figure name="Worker">
        <WorkerLink id={job.worker_id} />
      </Figure>
      {job.trace_id && (
        <Figure name="Trace">
          <span class="id">{job.trace_id}</span> <CopyButton text={job.trace_id} what="the id of the trace" />
        </Figure>
      )}
      {job.priority !== 0 && <Figure name="Priority">{job.priority}</Figure>}
      {job.deadline_at && (
        <Figure name="Deadline">
          <Time at={ms(job.deadline_at)} />
        </Figure>
      )}
      {job.progress !== null && !isSettled(job.state) && (
        <Figure name="Progress">
          {format.percent(job.progress)} {job.status_message}
        </Figure>
      )}
    </dl>
  );
}

/** Shows how a job failed, and a link to others that failed in the same way. */
function Failure({ job: { error, state } }: { job: Job }) {
  if (!error) return null;
  return (
    <p class="failure">
      <strong class="id">{error.code}</strong>: {format.asSentence(error.message)}{' '}
      <a href={href(`jobs?state=${state}&error_code=${encodeURIComponent(error.code)}&range=24h`)}>
        Other jobs that ended this way today
      </a>
    </p>
  );
}

function Story({ steps }: { steps: LedgerStep[] }) {
  const timeline = timelineOf(steps, now.value);
  return (
    <>
      <h2>What happened {timeline?.repeatsWorker && <span class="badge">same worker twice</span>}</h2>
      {timeline && <TimelineChart timeline={timeline} />}
      <details class="steps">
        <summary>{format.plural(steps.length, 'step')}</summary>
        <div class="table">
          <table>
            <thead>
              <tr>
                <th scope="col">Time</th>
                <th scope="col" class="number">
                  After
                </th>
                <th scope="col">Step</th>
                <th scope="col">Worker</th>
                <th scope="col">Detail</th>
              </tr>
            </thead>
            <tbody>
              {steps.map(({ at, step, worker_id, detail }, index) => (
                <tr key={`${at} ${index}`}>
                  <td>
                    <Time at={Date.parse(at)} />
                  </td>
                  <td class="number">{format.duration(between(steps[0]!.at, at))}</td>
                  <td>{format.inWords(step)}</td>
                  <td>
                    <WorkerLink id={worker_id} />
                  </td>
                  <td class="wraps">{detail ?? ''}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </details>
    </>
  );
}

/**
 * Returns a command that makes the page's own call, to be pasted into a shell.
 * @param path without a slash at its beginning
 */
function curlOf(path: string): string {
  return curlCommand(at(path), session.value?.asks_for_token === true);
}
