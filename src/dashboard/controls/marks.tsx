import type { AuditOutcome } from '../../protocol/audit.ts';
import type { BatchStatus } from '../../protocol/file-answers.ts';
import type { WorkerState } from '../../protocol/fleet-view.ts';
import type { JobState } from '../../protocol/jobs.ts';
import type { RequestOutcome } from '../../protocol/request-outcomes.ts';
import type { ResponseRow } from '../../protocol/response-rows.ts';
import type { LaunchRow, LaunchState } from '../../protocol/scaling.ts';

/** The shape of a mark, which tells a state beside its word; colour only supports both. */
export type Shape = 'full' | 'tick' | 'ring' | 'hollow' | 'half' | 'bar' | 'triangle' | 'cross' | 'dashed';

/** The circumference of the ring, so that shares of it can be drawn. */
const RING = 2 * Math.PI * 4.5;

interface MarkProps {
  shape: Shape;
  /** The share of a ring that is filled, from 0 to 1; left out: unknown. */
  share?: number | null;
  /** The text that is read aloud if no word stands beside the mark. */
  label?: string;
}

export function Mark({ shape, share, label }: MarkProps) {
  const isUnknown = shape === 'ring' && share == null;
  return (
    <>
      <svg
        class={`mark ${shape}${isUnknown ? ' unknown' : ''}`}
        viewBox="0 0 12 12"
        width="12"
        height="12"
        aria-hidden="true"
      >
        <Drawing shape={shape} share={share ?? null} />
      </svg>
      {label && <span class="unseen">{label}</span>}
    </>
  );
}

function Drawing({ shape, share }: { shape: Shape; share: number | null }) {
  switch (shape) {
    case 'full':
      return <circle class="fill" cx="6" cy="6" r="5" />;
    case 'tick':
      return <path class="stroke" d="M1.5 6.5 4.5 9.5 10.5 2.5" />;
    case 'ring':
      return (
        <>
          <circle class="stroke faint" cx="6" cy="6" r="4.5" />
          <circle
            class="stroke turn"
            cx="6"
            cy="6"
            r="4.5"
            stroke-dasharray={`${RING * (share ?? 0.3)} ${RING}`}
            transform="rotate(-90 6 6)"
          />
        </>
      );
    case 'hollow':
      return <circle class="stroke" cx="6" cy="6" r="4.5" />;
    case 'half':
      return (
        <>
          <circle class="stroke" cx="6" cy="6" r="4.5" />
          <path class="fill" d="M6 1.5a4.5 4.5 0 0 1 0 9z" />
        </>
      );
    case 'bar':
      return <path class="stroke" d="M1.5 6h9" />;
    case 'triangle':
      return <path class="fill" d="M6 1 11.5 11H.5z" />;
    case 'cross':
      return (
        <>
          <rect class="fill" x=".5" y=".5" width="11" height="11" rx="1.5" />
          <path class="stroke inverse" d="M3.5 3.5l5 5m0-5-5 5" />
        </>
      );
    case 'dashed':
      return <circle class="stroke" cx="6" cy="6" r="4.5" stroke-dasharray="2 1.53" />;
  }
}

type Tone = 'good' | 'work' | 'idle' | 'drain' | 'warn' | 'bad';

interface Look {
  word: string;
  shape: Shape;
  tone: Tone;
}

export const WORKER_LOOKS: Record<WorkerState, Look> = {
  error: { word: 'Error', shape: 'cross', tone: 'bad' },
  lost: { word: 'Lost', shape: 'dashed', tone: 'idle' },
  late: { word: 'Late', shape: 'triangle', tone: 'warn' },
  paused: { word: 'Paused', shape: 'triangle', tone: 'warn' },
  starting: { word: 'Starting', shape: 'hollow', tone: 'idle' },
  loading: { word: 'Loading', shape: 'ring', tone: 'work' },
  draining: { word: 'Draining', shape: 'half', tone: 'drain' },
  running: { word: 'Running', shape: 'ring', tone: 'work' },
  // The word is not "Ready": in the verdict and by pool, "ready" also counts workers that run jobs.
  ready: { word: 'Idle', shape: 'full', tone: 'good' },
  stopped: { word: 'Stopped', shape: 'bar', tone: 'drain' },
};

/** The states of workers, worst first, as lists are sorted. */
export const WORKER_STATES = Object.keys(WORKER_LOOKS) as WorkerState[];

const JOB_LOOKS: Record<JobState, Look> = {
  pending: { word: 'Waiting', shape: 'hollow', tone: 'idle' },
  leased: { word: 'Running', shape: 'ring', tone: 'work' },
  succeeded: { word: 'Succeeded', shape: 'tick', tone: 'good' },
  failed: { word: 'Failed', shape: 'cross', tone: 'bad' },
  cancelled: { word: 'Cancelled', shape: 'bar', tone: 'drain' },
  expired: { word: 'Expired', shape: 'dashed', tone: 'idle' },
};

const REQUEST_LOOKS: Record<RequestOutcome, Look> = {
  succeeded: JOB_LOOKS.succeeded,
  failed: JOB_LOOKS.failed,
  cancelled: JOB_LOOKS.cancelled,
  expired: JOB_LOOKS.expired,
  rejected: { word: 'Rejected', shape: 'cross', tone: 'bad' },
};

const AUDIT_LOOKS: Record<AuditOutcome, Look> = {
  begun: { word: 'Begun', shape: 'half', tone: 'warn' },
  done: { word: 'Done', shape: 'tick', tone: 'good' },
  refused: { word: 'Refused', shape: 'bar', tone: 'idle' },
  failed: JOB_LOOKS.failed,
};

const BATCH_LOOKS: Record<BatchStatus, Look> = {
  validating: { word: 'Validating', shape: 'hollow', tone: 'idle' },
  in_progress: { word: 'Running', shape: 'ring', tone: 'work' },
  finalizing: { word: 'Finalizing', shape: 'ring', tone: 'work' },
  cancelling: { word: 'Cancelling', shape: 'half', tone: 'drain' },
  failed: { word: 'Failed', shape: 'cross', tone: 'bad' },
  completed: { word: 'Completed', shape: 'tick', tone: 'good' },
  cancelled: { word: 'Cancelled', shape: 'bar', tone: 'drain' },
  expired: { word: 'Expired', shape: 'dashed', tone: 'idle' },
};

const RESPONSE_LOOKS: Record<ResponseRow['status'], Look> = {
  queued: JOB_LOOKS.pending,
  in_progress: JOB_LOOKS.leased,
  completed: BATCH_LOOKS.completed,
  incomplete: { word: 'Incomplete', shape: 'half', tone: 'warn' },
  failed: JOB_LOOKS.failed,
  cancelled: JOB_LOOKS.cancelled,
};

const LAUNCH_LOOKS: Record<LaunchState, Look> = {
  intended: { word: 'Decided', shape: 'hollow', tone: 'idle' },
  requested: { word: 'Asked for', shape: 'hollow', tone: 'idle' },
  accepted: { word: 'Starting', shape: 'hollow', tone: 'work' },
  registered: { word: 'Registered', shape: 'ring', tone: 'work' },
  ready: { word: 'Ready', shape: 'full', tone: 'good' },
  draining: { word: 'Draining', shape: 'half', tone: 'drain' },
  terminating: { word: 'Ending', shape: 'bar', tone: 'drain' },
  gone: { word: 'Ended', shape: 'tick', tone: 'idle' },
  failed: { word: 'Failed', shape: 'cross', tone: 'bad' },
};

/** Shows the mark of a worker's state. @param share the filled share of the worker's progress, or of its slots */
export function WorkerMark({ state, share }: { state: WorkerState; share?: number | null }) {
  return <State look={WORKER_LOOKS[state]} share={share} />;
}

export function JobMark({ state }: { state: JobState }) {
  return <State look={JOB_LOOKS[state]} />;
}

export function RequestMark({ outcome }: { outcome: RequestOutcome }) {
  return <State look={REQUEST_LOOKS[outcome]} />;
}

export function AuditMark({ outcome }: { outcome: AuditOutcome }) {
  return <State look={AUDIT_LOOKS[outcome]} />;
}

export function BatchMark({ status, share }: { status: BatchStatus; share?: number | null }) {
  return <State look={BATCH_LOOKS[status]} share={share} />;
}

export function ResponseMark({ status }: Pick<ResponseRow, 'status'>) {
  return <State look={RESPONSE_LOOKS[status]} />;
}

export function LaunchMark({ launch: { state, loading } }: { launch: Pick<LaunchRow, 'state' | 'loading'> }) {
  const isLoading = state === 'accepted' && loading !== null;
  return (
    <State look={isLoading ? WORKER_LOOKS.loading : LAUNCH_LOOKS[state]} share={loading?.progress ?? 1} />
  );
}

function State({ look: { word, shape, tone }, share }: { look: Look; share?: number | null }) {
  return (
    <span class={`state ${tone}`}>
      <Mark shape={shape} share={share} />
      {word}
    </span>
  );
}
