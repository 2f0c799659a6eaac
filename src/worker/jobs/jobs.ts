import type { Ack, Failure, Job, JobRef, Registered, ReleaseReason, Renewed } from '../../protocol/index.ts';
import type { AnswerStream } from '../answers/answer-stream.ts';
import type { Answers } from '../answers/answers.ts';
import { type FileAccessSettings, fileAccessOf } from '../files/file-access.ts';
import { uploadResult } from '../files/transfer.ts';
import type { AttemptEnd, Ports, WorkObserver } from '../ports.ts';
import { isOfDyingEngine } from '../run/engine-failures.ts';
import { type Asking, askingOf, failJob, NOT_ASKED, type RunPorts, runJob } from '../run/run-job.ts';
import { endOf, idsOf, RunningJob } from '../run/running-job.ts';
import { RUNPOD_DEFAULTS, type RunpodSettings } from '../run/runpod-input.ts';
import { ServedModels } from '../run/served-models.ts';
import { isExtended } from '../session/peer.ts';
import type { Session } from '../session/session.ts';
import {
  brokenBy,
  deadlinePassed,
  endRevoked,
  LEFT_TO_ITS_LEASE,
  logFailure,
  NOT_RELAYED,
  overBy,
} from './end-reasons.ts';
import { Forecast } from './forecast.ts';
import { HeldJobs, type Released } from './held-jobs.ts';
import { Leases } from './leases.ts';
import { Outbox } from './outbox.ts';
import { isReport, type Settlement } from './settlement.ts';

export interface JobsSettings extends FileAccessSettings {
  configId: string;
  capacity: number;
  renewAfterSeconds: number;
  /** Whether answers are moved: the engine continues from token ids. */
  moves?: boolean;
  /** The form of answers to `runpod` jobs; left out: that of RunPod's worker without variables. */
  runpod?: RunpodSettings;
}

export interface JobsPorts extends Ports {
  queue: Pick<Session, 'peer' | 'send' | 'sendSettlement' | 'resultsFound'>;
  answers: Answers;
  observer: WorkObserver;
  /** Called when a job failed like jobs of a dying engine: no job is taken until the health of the engine is known. */
  engineDoubted(message: string): void;
  /** Called when a job began, ended or was acknowledged. */
  changed(): void;
}

/** Takes, runs, settles and releases the jobs that this worker holds. */
export class Jobs {
  readonly #ports: JobsPorts;
  readonly #capacity: number;
  readonly #held = new HeldJobs();
  readonly #outbox: Outbox;
  readonly #leases: Leases;
  /** The names that the engine answers to. */
  readonly #models: ServedModels;
  readonly #runPorts: Omit<RunPorts, 'peer' | keyof Asking>;
  readonly #forecast: Forecast;
  readonly #asking: Asking;
  /** The reason for which a job pushed now would be released; null: jobs are taken. */
  closedFor: ReleaseReason | null = null;

  constructor(ports: JobsPorts, settings: JobsSettings) {
    const { clock, queue, observer } = ports;
    this.#ports = ports;
    this.#capacity = settings.capacity;
    this.#models = new ServedModels(settings.configId);
    this.#asking = askingOf(settings.moves ?? false);
    const runpod = settings.runpod ?? RUNPOD_DEFAULTS;
    const files = fileAccessOf(settings);
    this.#runPorts = { ...ports, files, models: this.#models, runpod };
    this.#forecast = new Forecast(clock);
    const held = this.#held;
    this.#outbox = new Outbox({
      ...ports,
      held,
      upload: (url, text, signal) => uploadResult(ports, files, url, text, signal),
      changed: () => this.#update(),
    });
    this.#leases = new Leases(
      {
        clock,
        held,
        queue,
        missed: () => observer.renewalMissed(),
        lost: (ref) => this.#lost(ref),
      },
      settings.renewAfterSeconds,
    );
  }

  /** The list of held jobs, read-only. */
  get held(): Omit<HeldJobs, 'add' | 'remove' | 'clear'> {
    return this.#held;
  }

  /** The number of slots that are free. */
  get free(): number {
    return Math.max(0, this.#capacity - this.#held.running);
  }

  /** Whether results wait that an extended queue takes before this worker offers slots. */
  get hasEarlyResults(): boolean {
    return this.#outbox.hasExtended;
  }

  /** The reason why settlements are in memory only, for people; null while the spool works. */
  get outage(): string | null {
    return this.#outbox.outage;
  }

  /** Takes over the settlements that earlier processes of this worker left behind. */
  load(): Promise<void> {
    return this.#outbox.load();
  }

  accept(job: Job): void {
    if (this.#isRepeat(job)) return;
    const older = this.#held.runningOf(job.job_id);
    if (older) this.#void(older, 'superseded');
    // A result of an attempt that the queue has given up is void.
    this.#outbox.remove(job.job_id);
    const reason = this.#reasonToDecline(job);
    if (reason) this.#decline(job, reason);
    else this.#start(job);
  }

  /**
   * Aborts the attempt. If its job has ended, reports to the queue what the attempt used, as the report that waits for
   * a connection does; otherwise sends nothing.
   */
  revoke(jobId: string, reason: string): void {
    const running = this.#held.runningOf(jobId);
    const mayTell = running?.state === 'running' && this.#ports.queue.peer?.countsUsage;
    const over = overBy(reason);
    if (running) this.#void(running, reason, mayTell ? over : null);
    else if (over === null || !isReport(this.#held.settledOf(jobId)?.settlement)) this.#outbox.remove(jobId);
    this.#update();
  }

  acknowledged(ack: Ack): void {
    if (!this.#outbox.acknowledge(ack)) return;
    if (ack.outcome !== 'accepted') {
      this.#ports.log.warn(
        { job_id: ack.job_id, fence_token: ack.fence_token, outcome: ack.outcome },
        'the queue did not count a settlement: the job was given away or forgotten meanwhile',
      );
    }
    this.#update();
  }

  renewed(answer: Renewed): void {
    this.#leases.renewed(answer);
    for (const ref of answer.again ?? []) this.#runningAs(ref)?.assembly?.reportAgain();
  }

  /** Sends what waited for a connection, and repeats what is not acknowledged. */
  connected(registered: Registered | null): void {
    for (const { job_id, reason } of registered?.revoked ?? []) this.revoke(job_id, reason);
    for (const { assembly } of this.#held.allRunning()) assembly?.reportAgain();
    for (const released of this.#held.allReleased()) {
      this.#held.remove(released);
      this.#giveBack(released);
    }
    this.#outbox.connected();
    if (registered) this.#leases.resumed();
    this.#update();
  }

  /** Releases the jobs that have not reached the engine yet. */
  releaseUnstarted(): void {
    for (const running of this.#held.allRunning()) {
      if (running.state === 'preparing') this.#release(running, 'not_started');
    }
  }

  /** Releases the jobs that cannot end within the grace of a drain, if another worker then gets them sooner. */
  releaseUnfinishable(graceMs: number): void {
    if (this.#ports.queue.peer?.takesReleases === false) return;
    for (const running of this.#held.allRunning()) {
      if (this.#forecast.mustReleaseInDrain(running, graceMs)) this.#release(running, 'draining');
    }
  }

  /** Releases the running jobs and delivers the rest sooner, as the grace of a drain is over. */
  graceOver(): void {
    for (const running of this.#held.allRunning()) this.#release(running, 'draining');
    this.#outbox.hurry();
  }

  /** Ends every running attempt with this failure. */
  failAll(failure: Failure): void {
    for (const running of this.#held.allRunning()) this.#fail(running, failure);
  }

  /** Drops everything without telling the queue; the spool keeps its settlements for the next process. */
  voidAll(reason: string): void {
    for (const running of this.#held.allRunning()) this.#void(running, reason);
    this.#outbox.abandon();
    this.#held.clear();
    this.#update();
  }

  /** Drops everything and leaves no timer running. */
  stop(): void {
    this.voidAll('stopped');
    this.#leases.stop();
  }

  /** Tells whether the attempt already runs here, or has finished and only waits to be acknowledged. */
  #isRepeat(job: Job): boolean {
    const running = this.#held.runningOf(job.job_id);
    if (running) return job.fence_token <= running.job.fence_token;
    const settled = this.#held.settledOf(job.job_id);
    if (!settled || job.fence_token > settled.settlement.fence_token) return false;
    this.#outbox.repeat(settled);
    return true;
  }

  /** Returns why a job is not taken; null: it is taken. */
  #reasonToDecline(job: Job): ReleaseReason | null {
    if (this.closedFor) return this.closedFor;
    if (this.free === 0) return 'overloaded';
    // A job alone runs as fast as it can here, which earlier answers may not show, so the worker tries it and learns.
    if (this.#held.running === 0) return null;
    return this.#forecast.wouldMissDeadline(job) ? 'deadline' : null;
  }

  #start(job: Job): void {
    const running = new RunningJob(job, this.#ports.clock.now(), this.#ports.tracer);
    this.#held.add(running);
    void this.#run(running);
    this.#update();
  }

  /**
   * Adopts what is known of a healthy engine.
   * @param models every name that the engine answers to
   * @param takes whether the engine is known to accept the fields that this worker adds
   * @param identity what the engine serves, for answers that are moved; null: unknown
   */
  engineIs(models: readonly string[], takes: boolean, identity: string | null): void {
    this.#models.set(models);
    const { usageAsking, idsAsking } = this.#asking;
    if (idsAsking) idsAsking.identity = identity ?? undefined;
    for (const asking of [usageAsking, idsAsking]) {
      if (takes && asking?.engine === 'untried') asking.engine = 'takes';
    }
  }

  async #run(running: RunningJob): Promise<void> {
    const { job } = running;
    const { clock, queue } = this.#ports;
    running.stream = this.#openStream(running);
    const deadline =
      job.deadline_ms === undefined
        ? null
        : clock.setTimeout(() => this.#fail(running, deadlinePassed(running, clock.now())), job.deadline_ms);
    const asking = queue.peer?.countsUsage ? this.#asking : NOT_ASKED;
    const settlement = await runJob(running, running.stream, {
      ...this.#runPorts,
      peer: queue.peer,
      ...asking,
    });
    if (deadline !== null) clock.clearTimeout(deadline);
    if (!running.isOver) this.#finish(running, settlement);
  }

  #openStream(running: RunningJob): AnswerStream | null {
    const { stream_id, mode } = running.job;
    if (stream_id === undefined || this.#ports.inside) return null;
    return mode === 'persisted'
      ? this.#ports.answers.openReplay(stream_id)
      : this.#openAnswer(running, stream_id);
  }

  #openAnswer(running: RunningJob, streamId: number): AnswerStream {
    return this.#ports.answers.open(streamId, (reason) => {
      const code = reason === 'deadline' ? 'deadline' : 'cancelled';
      const message = `the caller's answer was cancelled: ${reason}`;
      this.#fail(running, { message, code, retryable: false });
    });
  }

  #finish(running: RunningJob, settlement: Settlement): void {
    running.finish();
    this.#forecast.finished(running);
    // This changes nothing if the answer was ended or broken, as it is for every kind of job that has an answer.
    running.stream?.break(NOT_RELAYED);
    // The doubt comes before the queue learns that a slot is free: the next job would be lost on an engine that dies.
    if (isOfDyingEngine(settlement)) this.#ports.engineDoubted(settlement.error);
    this.#settle(running, settlement);
  }

  #fail(running: RunningJob, failure: Failure): void {
    if (running.isOver) return;
    running.abort();
    this.#settle(running, failJob(running.job, failure, running.stream));
  }

  #release(running: RunningJob, reason: ReleaseReason): void {
    running.abort();
    running.stream?.break(brokenBy(reason));
    this.#leave(running, { result: 'released', reason }, () => {
      const [timing, partial] = [running.timing(), running.partial()];
      this.#sendRelease({ state: 'released', job: running.job, reason, timing, partial });
    });
    this.#update();
  }

  /** Aborts an attempt that the queue took back. @param over the failure to report; null: nothing is sent */
  #void(running: RunningJob, reason: string, over: Failure | null = null): void {
    this.#ports.log.info({ ...idsOf(running.job), reason }, 'job revoked');
    running.abort();
    endRevoked(running.stream, reason);
    this.#leave(running, { result: 'revoked', reason }, () => {
      if (over !== null) this.#put(running, failJob(running.job, over, null));
    });
  }

  /**
   * Takes an attempt out of its slot.
   * @param report sends what the queue has to hear of the attempt, before the answer is finished: a drain may end then
   */
  #leave(running: RunningJob, end: AttemptEnd, report: () => void): void {
    this.#held.remove(running);
    this.#ports.observer.ended(running.ended(end, this.#ports.clock.now()));
    report();
    if (running.stream) this.#ports.answers.finished(running.stream);
  }

  /** Releases a job that was pushed and cannot be taken. */
  #decline(job: Job, reason: ReleaseReason): void {
    if (job.stream_id !== undefined) this.#ports.answers.decline(job.stream_id, brokenBy(reason));
    this.#sendRelease({ state: 'released', job, reason, timing: undefined, partial: null });
    this.#update();
  }

  #sendRelease(released: Released): void {
    const { job, reason } = released;
    this.#ports.log.info({ ...idsOf(job), reason }, 'job released');
    this.#giveBack(released);
  }

  /**
   * Tells the queue of a release. A release that cannot be sent now goes over the next connection, whose `register` may
   * already have named the job.
   */
  #giveBack(released: Released): void {
    const { queue } = this.#ports;
    const { job, reason, timing, partial } = released;
    const { job_id, fence_token } = job;
    if (isExtended(queue.peer)) {
      const told = { job_id, fence_token, reason, ...(timing && { timing }), ...(partial && { partial }) };
      if (!queue.send({ type: 'job_release', ...told })) this.#held.add(released);
    } else if (job.mode === 'transient' || !LEFT_TO_ITS_LEASE.has(reason)) {
      this.#outbox.put(failJob(job, brokenBy(reason), null), job.mode === 'persisted');
    }
  }

  #settle(running: RunningJob, outcome: Settlement): void {
    if (outcome.type === 'job_error') logFailure(this.#ports.log, running.job, outcome);
    this.#leave(running, endOf(outcome), () => this.#put(running, outcome));
    this.#update();
  }

  #put(running: RunningJob, outcome: Settlement): void {
    const { job } = running;
    const partial = outcome.type === 'job_error' && outcome.retryable ? running.partial() : null;
    const settlement = { ...outcome, ...running.details(), ...(partial && { partial }) };
    this.#outbox.put(settlement, job.mode === 'persisted', job.result_upload_url ?? undefined);
  }

  #lost(ref: JobRef): void {
    const running = this.#runningAs(ref);
    if (running) this.#void(running, 'lease_lost');
    this.#outbox.acknowledge(ref);
    this.#update();
  }

  #runningAs({ job_id, fence_token }: JobRef): RunningJob | null {
    const running = this.#held.runningOf(job_id);
    return running?.job.fence_token === fence_token ? running : null;
  }

  /** Reports that the set of held jobs has changed. */
  #update(): void {
    this.#leases.changed();
    this.#ports.changed();
  }
}
