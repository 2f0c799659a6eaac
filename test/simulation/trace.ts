import { createHash } from 'node:crypto';
import { type AnswerRecord, unpack } from '../../src/protocol/index.ts';
import { Timeline } from './timeline.ts';

/** What happened, a line each; the same seed gives the same lines. */
export class Trace {
  readonly lines: string[] = [];
  readonly #timeline: Timeline;

  constructor(timeline: Timeline) {
    this.#timeline = timeline;
  }

  say(text: string): void {
    const seconds = ((this.#timeline.now - Timeline.START) / 1000).toFixed(3);
    this.lines.push(`${seconds.padStart(9)}  ${text}`);
  }

  get hash(): string {
    return createHash('sha256').update(this.lines.join('\n')).digest('hex').slice(0, 16);
  }
}

/** The frames of a message, one or several. */
export function framesIn(message: string): string[] {
  const said: unknown = JSON.parse(message);
  return Array.isArray(said) ? said.map((frame) => JSON.stringify(frame)) : [message];
}

/** A frame that came as bytes, without the body of its request where that goes beside it. */
export function frameText(bytes: Uint8Array): string {
  return unpack(bytes)?.head ?? new TextDecoder().decode(bytes);
}

/** A message in a few words. */
export function brief(message: string): string {
  return framesIn(message).map(briefFrame).join(' + ');
}

function briefFrame(text: string): string {
  const frame = JSON.parse(text) as Record<string, unknown>;
  const jobs = (list: unknown) =>
    (list as { job_id: string; fence_token?: number }[])
      .map((job) => `${job.job_id}#${job.fence_token ?? ''}`)
      .join(' ');
  const parts: unknown[] = [frame.type];
  if (frame.job_id)
    parts.push(`${frame.job_id}${frame.fence_token === undefined ? '' : `#${frame.fence_token}`}`);
  if (Array.isArray(frame.jobs)) parts.push(`[${jobs(frame.jobs)}]`);
  if (Array.isArray(frame.resumed)) parts.push(`resumed [${frame.resumed.join(' ')}]`);
  if (Array.isArray(frame.revoked)) parts.push(`revoked [${jobs(frame.revoked)}]`);
  if (Array.isArray(frame.lost)) parts.push(`lost [${jobs(frame.lost)}]`);
  for (const key of ['outcome', 'reason', 'code', 'stream_id', 'message'] as const) {
    if (frame[key] !== undefined) parts.push(`${key}=${frame[key]}`);
  }
  return parts.join(' ');
}

/** One record of an answer socket. */
export function recordText(record: AnswerRecord): string {
  const more =
    record.type === 'bytes'
      ? `${record.offset}+${record.data.byteLength}`
      : record.type === 'end'
        ? record.size
        : record.type === 'taken'
          ? record.offset
          : record.type === 'broken'
            ? record.reason.code
            : record.type === 'cancel'
              ? record.reason
              : '';
  return `${record.type} s${record.stream} ${more}`;
}
