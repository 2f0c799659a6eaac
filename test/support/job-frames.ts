/** Frames in which a worker ends the job of a `job` frame. */

interface Pushed {
  job_id: string;
  fence_token: number;
}

export function result({ job_id, fence_token }: Pushed, value: unknown = 1) {
  return { type: 'job_result', job_id, fence_token, result: { value } };
}

export function failure({ job_id, fence_token }: Pushed, more: object = {}) {
  return { type: 'job_error', job_id, fence_token, error: 'it broke', ...more };
}
