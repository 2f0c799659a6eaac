import { BASE_TASKS } from '../../protocol/index.ts';
import type { Attempt } from './attempt.ts';
import { runSpeech, runTranscription } from './audio-tasks.ts';
import { runChat } from './chat-job.ts';
import { runEmbeddings } from './embeddings-task.ts';
import { runImageToVideo, runSpeechToVideo, runTextToVideo } from './video-tasks.ts';

type RunTask = (attempt: Attempt) => Promise<object>;

/** The runners that a payload's `task` selects, in the base protocol. */
const TASKS = new Map<string, RunTask>([
  [BASE_TASKS.chat, runChat],
  [BASE_TASKS.embeddings, runEmbeddings],
  [BASE_TASKS.speech, runSpeech],
  [BASE_TASKS.transcription, runTranscription],
  [BASE_TASKS.textToVideo, runTextToVideo],
  [BASE_TASKS.imageToVideo, runImageToVideo],
  [BASE_TASKS.speechToVideo, runSpeechToVideo],
]);

/**
 * The job types that the base README names; a `task` of the payload decides what they run. A task's own name may be the
 * type too.
 */
const BASE_JOB_TYPES = ['chat_completion', 'llm_inference'];

/** Returns the task that a job of the base protocol asks for, with `""` counting as none; null: it is no such job. */
export function baseTaskOf(jobType: string | undefined, payload: object): string | null {
  const isTask = jobType !== undefined && TASKS.has(jobType);
  if (jobType !== undefined && !isTask && !BASE_JOB_TYPES.includes(jobType)) return null;
  const task = 'task' in payload ? payload.task : undefined;
  if (task) return String(task);
  return isTask ? jobType : BASE_TASKS.chat;
}

/** Returns the runner of a task; undefined: no such task is known. */
export function runnerOf(task: string): RunTask | undefined {
  return TASKS.get(task);
}

export const KNOWN_TASKS = [...TASKS.keys()];

/**
 * Runs a task and returns its result in the base protocol's form: with config_id and task where the queue named no
 * type, as the deployed worker does.
 */
export async function runBaseTask(
  attempt: Attempt,
  task: string,
  run: RunTask,
): Promise<Record<string, unknown>> {
  const fields = await run(attempt);
  const { jobType, configId, payload } = attempt;
  const type = jobType ?? (task === BASE_TASKS.chat ? 'chat_completion' : undefined);
  return {
    status: 'success',
    ...(jobType === undefined && configId !== undefined ? { config_id: configId } : {}),
    ...(jobType === undefined || 'task' in payload ? { task } : {}),
    ...(type === undefined ? {} : { job_type: type }),
    ...fields,
    processed_at: attempt.timestamp(),
  };
}
